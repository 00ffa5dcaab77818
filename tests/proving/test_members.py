"""The members themselves: what no scenario asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from proving.fetched import Unavailable
from proving.members.fleet import HOSTS, Fleet, Members, places_of
from proving.members.hosts import JsonHost, Membership
from proving.members.view import Generation, generations

TOPIC = "topic"
OWN_ASSIGNOR = {"kafkajs": "roundrobin"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """With Kafka's initial delay, which takes in the second join of a client that has just learned of the topic."""
    with Broker() as running:
        yield running


@pytest.mark.kafka
def test_a_java_member_crashes_when_told(broker: Broker, tmp_path: Path) -> None:
    host = HOSTS["java"]("java", broker.bootstrap_servers, tmp_path / "log")
    assert isinstance(host, JsonHost)
    host.tell("crash", "anyone")
    assert host.wait() == 137


@pytest.mark.parametrize("client", [pytest.param("java", marks=pytest.mark.kafka), *sorted(HOSTS.keys() - {"java"})])
def test_a_stock_member_joins(broker: Broker, tmp_path: Path, client: str) -> None:
    """With nothing set but the group and the topic."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(TOPIC, 3)
    stock = Membership.stock("group", (TOPIC,), OWN_ASSIGNOR.get(client, "range"))
    try:
        with Fleet(broker.bootstrap_servers, tmp_path / "log") as fleet, Members(fleet, stock) as members:
            members.join("one", client)
            members.wait_settled(places_of(TOPIC, 3))
    except Unavailable as missing:
        pytest.skip(str(missing))
    found = generations(broker.bootstrap_servers, "group")
    if client == "kafka-python":  # a leader that learns of the topic while it joins, joins once more
        assert Generation(1, 1) in found
        assert found[-1].members == 0
    else:
        assert found[-2:] == [Generation(1, 1), Generation(2, 0)]
