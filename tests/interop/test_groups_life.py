"""The life of a group with every client and each of its assignors: members join, leave and crash; every partition has
one owner, every record is read, and who comes next goes on where the commits ended."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from equipoise.broker import Broker
from proving.members.events import Place
from proving.members.fleet import Members
from tests.interop.groups import Fleet, committed, view_group

PARTITIONS = 12
RECORDS = 5  # written to each partition at a time
CRASHING: dict[str, Any] = {"alone": True, "session_ms": 2_000}
Case = tuple[str, str, str]  # client, assignor, commit
CASES: list[Case] = [
    ("equipoise", "range", "auto"),
    ("equipoise", "roundrobin", "sync"),
    ("equipoise", "sticky", "auto"),
    ("equipoise", "cooperative-sticky", "sync"),
    ("confluent-kafka", "range", "sync"),
    ("confluent-kafka", "roundrobin", "auto"),
    ("confluent-kafka", "cooperative-sticky", "sync"),
    ("kafka-python", "range", "auto"),
    ("kafka-python", "roundrobin", "sync"),
    ("kafka-python", "sticky", "sync"),
    ("kafka-python", "cooperative-sticky", "auto"),
    ("aiokafka", "roundrobin", "sync"),
    ("aiokafka", "range", "auto"),
    ("kafkajs", "roundrobin", "auto"),
    ("kcat", "range", "auto"),
    ("kcat", "cooperative-sticky", "auto"),
]


# With an assignor that the broker only carries, a client's life is much the same. What is not here has its turn in
# test_groups_incremental.py, where the broker assigns itself.
USUAL = {
    *(case for case in CASES if case[0] == "equipoise"),
    ("confluent-kafka", "cooperative-sticky", "sync"),
    ("kafka-python", "cooperative-sticky", "auto"),
    ("aiokafka", "range", "auto"),
    ("kafkajs", "roundrobin", "auto"),
    ("kcat", "range", "auto"),
}


def with_rest_in_soak(usual: Container[Case]) -> list[ParameterSet]:
    """All cases; those that are not usual run in `make soak` only."""
    return [pytest.param(*case, marks=() if case in usual else pytest.mark.soak) for case in CASES]


@pytest.mark.parametrize(("client", "assignor", "commit"), with_rest_in_soak(USUAL))
def test_life(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, assignor: str, commit: str
) -> None:
    with Members.of(fleet, topic, assignor=assignor, commit=commit) as members:
        live(members, broker, places, client)
        assert view_group(broker, members.group).protocol == (assignor if client != "kafkajs" else KAFKAJS_ROUNDROBIN)


def live(members: Members, broker: Broker, places: set[Place], client: str) -> None:
    """Members join, leave and crash; then all go, and one comes."""
    fleet = members.fleet
    members.join("first", client)
    members.wait_settled(places)
    members.wait_read(fleet.produce(places, RECORDS))
    members.join("second", client)
    members.wait_settled(places)

    for name in ("3rd", "4th", "5th", "6th", "7th"):
        members.join(name, client)
    members.join("victim", client, **CRASHING)
    members.wait_settled(places)
    members.wait_read(fleet.produce(places, RECORDS))

    members.close("first", "4th")
    members.wait_settled(places)
    members.kill("victim")
    members.wait_settled(places)
    members.wait_read(fleet.produce(places, RECORDS))

    members.wait_until("all is committed", lambda: set(committed(broker, members.group).values()) == {3 * RECORDS})
    members.close(*members.names)
    members.wait_until("the group is empty", lambda: members.view() == ("Empty", 0))
    check_resumes(members, client, places)
    assert members.read_again() == set()


KAFKAJS_ROUNDROBIN = "RoundRobinAssigner"


def check_resumes(members: Members, client: str, places: set[Place]) -> None:
    """Whoever comes after all have gone reads what is new, and nothing else."""
    since = members.now
    new = members.fleet.produce(places, 2)
    members.join("next", client)
    members.wait_read(new)
    assert members.ledger.read(since).keys() == new


@pytest.mark.parametrize(
    ("assignor", "clients"),
    [
        ("range", ("confluent-kafka", "kafka-python", "aiokafka")),
        ("range", ("equipoise", "confluent-kafka", "kafka-python")),
        ("cooperative-sticky", ("equipoise", "confluent-kafka", "kafka-python")),
        ("cooperative-sticky", ("confluent-kafka", "equipoise")),
    ],
)
def test_mixed_clients(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], assignor: str, clients: tuple[str, ...]
) -> None:
    """Several clients in one group, on an assignor that all have; each is the leader at some time."""
    with Members.of(fleet, topic, assignor=assignor) as members:
        for client in clients:
            members.join(f"{client} 1", client)
            members.wait_settled(places)
            members.wait_read(fleet.produce(places, 3))
        for client in clients:
            members.join(f"{client} 2", client)
        members.join("victim", clients[-1], **CRASHING)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 3))
        for client in clients:
            members.close(f"{client} 1")  # the leader, for it came first
            members.wait_settled(places)
            members.wait_read(fleet.produce(places, 3))
        members.kill("victim")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 3))
        assert view_group(broker, members.group).protocol == assignor
        assert members.read_again() == set()
