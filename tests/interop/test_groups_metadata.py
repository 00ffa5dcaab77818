"""Topics that change under a group: a pattern finds new ones, and partitions are added."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from proving.members.fleet import Members, places_of
from tests.interop.drivers import Confluent
from tests.interop.groups import Fleet, view_group

PARTITIONS = 12
METADATA_AGE_MS = 400


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        ("confluent-kafka", "range"),
        ("confluent-kafka", "cooperative-sticky"),
        ("kafka-python", "roundrobin"),
        ("kafka-python", "cooperative-sticky"),
        ("aiokafka", "roundrobin"),
        ("kcat", "roundrobin"),
    ],
)
def test_pattern_finds_new_topic(
    broker: Broker, fleet: Fleet, confluent: Confluent, topic: str, client: str, assignor: str
) -> None:
    first, other, second = f"{topic}-a1", f"{topic}-b1", f"{topic}-a2"
    confluent.create_topic(first, PARTITIONS)
    confluent.create_topic(other, 1)
    settings = {"pattern": f"{topic}-a", "assignor": assignor, "metadata_age_ms": METADATA_AGE_MS}
    with Members.of(fleet, **settings) as members:
        members.join("one", client)
        members.join("two", client)
        places = places_of(first, PARTITIONS)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        confluent.create_topic(second, PARTITIONS)
        places |= places_of(second, PARTITIONS)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        assert members.read_again() == set()


def test_pattern_of_kafkajs(broker: Broker, fleet: Fleet, confluent: Confluent, topic: str) -> None:
    """KafkaJS looks for topics once, when it subscribes: what is created later is seen by members that come later."""
    names = [f"{topic}-a{number}" for number in range(2)]
    for name in names:
        confluent.create_topic(name, PARTITIONS)
    places = {place for name in names for place in places_of(name, PARTITIONS)}
    with Members.of(fleet, pattern=f"{topic}-a") as members:
        members.join("one", "kafkajs")
        members.join("two", "kafkajs")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        assert members.read_again() == set()


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        ("confluent-kafka", "roundrobin"),
        ("confluent-kafka", "cooperative-sticky"),
        ("kafka-python", "range"),
        ("kafka-python", "cooperative-sticky"),
        ("aiokafka", "roundrobin"),
        ("kafkajs", "roundrobin"),
        ("kcat", "range"),
    ],
)
def test_added_partitions(
    broker: Broker, fleet: Fleet, confluent: Confluent, topic: str, client: str, assignor: str
) -> None:
    confluent.create_topic(topic, PARTITIONS)
    with Members.of(fleet, topic, assignor=assignor, metadata_age_ms=METADATA_AGE_MS) as members:
        members.join("one", client)
        members.join("two", client)
        members.wait_settled(places_of(topic, PARTITIONS))
        members.wait_read(fleet.produce(places_of(topic, PARTITIONS), 2))
        generation = view_group(broker, members.group).generation
        confluent.add_partitions(topic, PARTITIONS + 4)
        places = places_of(topic, PARTITIONS + 4)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        assert view_group(broker, members.group).generation > generation
        assert members.read_again() == set()
