"""Groups of real clients go from the classic to the consumer protocol and back, member by member. The ledger checks
that no partition has two owners at any instant, and every record is read."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from proving.members.events import Place
from proving.members.fleet import Members
from proving.members.view import CONSUMER
from tests.interop.groups import Fleet

PARTITIONS = 6


@pytest.mark.parametrize(
    ("client", "classic"),
    [
        ("equipoise", "cooperative-sticky"),
        ("equipoise", "range"),
        ("confluent-kafka", "cooperative-sticky"),
        ("confluent-kafka", "range"),
    ],
)
def test_rolling_upgrade_and_back(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, classic: str
) -> None:
    with Members.of(fleet, topic, assignor=classic) as members:
        for name in ("one", "two"):
            members.join(name, client)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        for old, new, assignor in (
            ("one", "one, new", CONSUMER),
            ("two", "two, new", CONSUMER),
            ("one, new", "one, back", classic),
            ("two, new", "two, back", classic),
        ):
            members.close(old)
            members.join(new, client, assignor=assignor)
            members.wait_settled(places)
            members.wait_read(fleet.produce(places, 2))


@pytest.mark.parametrize("guest", ["kafka-python", "aiokafka", "confluent-kafka", "equipoise"])
def test_a_classic_member_in_a_consumer_group(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], guest: str
) -> None:
    with Members.of(fleet, topic, assignor=CONSUMER) as members:
        members.join("one", "equipoise")
        members.wait_settled(places)
        members.join("guest", guest, assignor="range")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        members.join("two", "equipoise")
        members.wait_settled(places)
        members.close("guest")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
