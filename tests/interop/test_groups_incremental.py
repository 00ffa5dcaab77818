"""Incremental rebalance with real clients: the life of a group with each of them, under the ledger; and only who loses
or gains something ever rejoins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.shard import Shard
from proving.members.events import Place
from proving.members.fleet import Members
from tests.interop.drivers import Confluent
from tests.interop.groups import SETTINGS, Fleet, committed, view_group
from tests.interop.test_groups_life import PARTITIONS, RECORDS, live, with_rest_in_soak

INCREMENTAL = {**SETTINGS, "num.partitions": PARTITIONS, "group.rebalance.incremental": "all"}
INELIGIBLE = {
    ("kafkajs", "roundrobin"),  # its assigner has a name of its own
    ("sarama", "sticky"),  # its leader writes user data into assignments
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(INCREMENTAL) as running:
        yield running


def is_kept(broker: Broker, group_id: str) -> bool:
    """Whether the broker keeps the group as an incremental one."""

    def look(server: Any) -> bool:
        group = server.group_coordinator.shard_of(group_id).core.consumer_groups.get(group_id)
        return group is not None and group.incremental is not None

    return broker.call(look)


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """JoinGroups by client id, without those that only ask for an id."""
    counts: Counter[str] = Counter()
    join_group = Shard.join_group

    def listen(self: Shard, request: Any, caller: Any, now: int) -> Any:
        counts[request.member_id] += 1
        return join_group(self, request, caller, now)

    monkeypatch.setattr(Shard, "join_group", listen)
    return counts


OTHERS = [
    pytest.param("java", "cooperative-sticky", "sync", marks=pytest.mark.kafka),
    pytest.param("java", "range,cooperative-sticky", "sync", marks=pytest.mark.kafka),
    pytest.param("java", "sticky", "sync", marks=pytest.mark.kafka),
    pytest.param("franz-go", "cooperative-sticky", "sync", marks=pytest.mark.kafka),
    pytest.param("franz-go", "range", "sync", marks=pytest.mark.kafka),
    pytest.param("sarama", "range", "sync", marks=pytest.mark.kafka),
    pytest.param("sarama", "roundrobin", "auto", marks=pytest.mark.kafka),
    pytest.param("sarama", "sticky", "sync", marks=pytest.mark.kafka),
]


# Each client, and each pair of a client and an assignor that has no turn in test_groups_life.py or below.
USUAL = {
    ("equipoise", "roundrobin", "sync"),
    ("equipoise", "cooperative-sticky", "sync"),
    ("confluent-kafka", "range", "sync"),
    ("confluent-kafka", "roundrobin", "auto"),
    ("kafka-python", "roundrobin", "sync"),
    ("kafka-python", "sticky", "sync"),
    ("aiokafka", "roundrobin", "sync"),
    ("kafkajs", "roundrobin", "auto"),
    ("kcat", "cooperative-sticky", "auto"),
}


@pytest.mark.parametrize(("client", "assignor", "commit"), [*with_rest_in_soak(USUAL), *OTHERS])
def test_life(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, assignor: str, commit: str
) -> None:
    with Members.of(fleet, topic, assignor=assignor, commit=commit) as members:
        live(members, broker, places, client)
        assert is_kept(broker, members.group) is ((client, assignor) not in INELIGIBLE)


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        ("confluent-kafka", "cooperative-sticky"),
        ("confluent-kafka", "range"),
        ("kafka-python", "cooperative-sticky"),
        ("kafka-python", "range"),
        ("aiokafka", "range"),
        ("equipoise", "cooperative-sticky"),
    ],
)
def test_only_who_loses_or_gains_rejoins(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], joins: Counter[str], client: str, assignor: str
) -> None:
    """I4 and I6: of eight members who loses something joins once, or twice if it is cooperative; who gains, once."""
    with Members.of(fleet, topic, assignor=assignor) as members:
        for number in range(8):
            members.join(f"member {number}", client)
        wait_stable(members, broker, places, 8)
        for comes in (True, False):
            before = owners(broker, members.group)
            joins.clear()
            if comes:
                members.join("new", client)
            else:
                members.close("member 3")
            wait_stable(members, broker, places, 9 if comes else 8)
            after = owners(broker, members.group)
            for member_id, had in before.items():
                loses, gains = had - after.get(member_id, had), after.get(member_id, had) - had
                most = 2 if loses and assignor == "cooperative-sticky" else 1
                assert joins[member_id] <= (most if loses or gains else 0)


def wait_stable(members: Members, broker: Broker, places: set[Place], count: int) -> None:
    """All have come, and each has what it is to have: a client may call back before the last one has joined."""

    def is_stable() -> bool:
        group = view_group(broker, members.group)
        return group.state == "Stable" and len(group.members) == count

    members.wait_until(f"{count} members are settled", is_stable)
    members.wait_settled(places)


def owners(broker: Broker, group_id: str) -> dict[str, set[Any]]:
    def look(server: Any) -> dict[str, set[Any]]:
        group = server.group_coordinator.shard_of(group_id).core.consumer_groups[group_id]
        return {member.member_id: set(member.assigned) for member in group.members.values()}

    return broker.call(look)


@pytest.mark.parametrize(
    "client", ["confluent-kafka", "kafka-python", "equipoise", pytest.param("java", marks=pytest.mark.kafka)]
)
def test_a_static_member_that_restarts_disturbs_nobody(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], joins: Counter[str], client: str
) -> None:
    with Members.of(fleet, topic, assignor="cooperative-sticky") as members:
        members.join("first", client)
        members.join("static", client, instance_id="i", alone=True)
        members.wait_settled(places)
        had, since = members.owned("static"), members.now
        joins.clear()
        members.kill("static")
        members.join("static again", client, instance_id="i")
        members.wait_settled(places)
        assert members.owned("static again") == had
        assert members.rebalances("first", since) == []
        assert set(joins) == {""}


def test_commits_during_a_move_are_accepted(broker: Broker, fleet: Fleet, topic: str, places: set[Place]) -> None:
    """Of members that lose something, in their callback, and of those that do not move: no record is read twice."""
    with Members.of(fleet, topic, assignor="cooperative-sticky", commit="sync") as members:
        for number in range(3):
            members.join(f"member {number}", "confluent-kafka")
        members.wait_settled(places)
        written = fleet.produce(places, RECORDS)
        for number in range(3, 6):
            members.join(f"member {number}", "confluent-kafka")
            written |= fleet.produce(places, RECORDS)
        members.wait_settled(places)
        members.wait_read(written)
        assert members.read_again() == set()
        count = 4 * RECORDS
        members.wait_until("all is committed", lambda: set(committed(broker, members.group).values()) == {count})


def test_tools_see_a_classic_group(
    broker: Broker, fleet: Fleet, confluent: Confluent, topic: str, places: set[Place]
) -> None:
    """Rules C7.3 to C7.5."""
    with Members.of(fleet, topic, assignor="cooperative-sticky") as members:
        members.join("first", "confluent-kafka")
        members.join("second", "confluent-kafka")
        members.wait_settled(places)
        assert is_kept(broker, members.group)
        described = confluent.admin.describe_consumer_groups([members.group])[members.group].result(30)
        assert (described.state.name, described.partition_assignor) == ("STABLE", "cooperative-sticky")
        assigned = [{(p.topic, p.partition) for p in m.assignment.topic_partitions} for m in described.members]
        assert sorted(map(len, assigned)) == [len(places) // 2] * 2
        assert assigned[0] | assigned[1] == places
        listed = confluent.admin.list_consumer_groups().result(30).valid
        (row,) = [one for one in listed if one.group_id == members.group]
        assert (row.state.name, row.type.name) == ("STABLE", "CLASSIC")
        members.close("first", "second")
        members.wait_until("the group is empty", lambda: view_group(broker, members.group).state == "Empty")
