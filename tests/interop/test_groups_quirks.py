"""What is particular about each client in a group: the versions it speaks, whether its heartbeats are held, and how it
takes it when it is put out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from kafka.admin import MemberToRemove
from kafka.errors import NoError

from equipoise.broker import Broker
from equipoise.broker.groups.held_heartbeats import HeldHeartbeat, Silence
from equipoise.broker.net import connection
from equipoise.wire.apis.headers import decode_request_header
from proving.members.events import Place
from proving.members.fleet import Members
from tests.interop.drivers import KafkaPython
from tests.interop.groups import Fleet, view_group

PARTITIONS = 4
JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14
ASSIGNORS = {
    "confluent-kafka": "range",
    "kafka-python": "range",
    "aiokafka": "roundrobin",
    "kafkajs": "roundrobin",
    "kcat": "range",
}
HELD = {"aiokafka", "confluent-kafka", "kafka-python", "kcat"}  # they say who they are, and are known to bear it


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[int]]:
    """The versions of each API that the broker has been asked in."""
    seen: dict[int, set[int]] = defaultdict(set)
    decode = decode_request_header

    def listen(frame: bytes) -> Any:
        header = decode(frame)
        seen[header[0]].add(header[1])
        return header

    monkeypatch.setattr(connection, "decode_request_header", listen)
    return seen


@pytest.fixture
def holds(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """By group, how long each heartbeat was allowed to be held."""
    seen: dict[str, list[int]] = defaultdict(list)
    limit = HeldHeartbeat.limit

    def listen(self: HeldHeartbeat, config: Any, member: Any, silence: Silence | None, now: int) -> int:
        allowed = limit(self, config, member, silence, now)
        if member is not None:
            seen[member.timer.group_id].append(allowed)
        return allowed

    monkeypatch.setattr(HeldHeartbeat, "limit", listen)
    return seen


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("confluent-kafka", {JOIN: 5, SYNC: 3, HEARTBEAT: 3, LEAVE: 1}),
        ("kafka-python", {JOIN: 7, SYNC: 5, HEARTBEAT: 4, LEAVE: 5}),
        ("aiokafka", {JOIN: 5, SYNC: 3, HEARTBEAT: 1, LEAVE: 1}),
        ("kafkajs", {JOIN: 5, SYNC: 3, HEARTBEAT: 3, LEAVE: 3}),
        ("kcat", {JOIN: 5, SYNC: 3, HEARTBEAT: 3, LEAVE: 1}),
    ],
)
def test_versions_and_holds(
    broker: Broker,
    fleet: Fleet,
    topic: str,
    places: set[Place],
    versions: dict[int, set[int]],
    holds: dict[str, list[int]],
    client: str,
    expected: dict[int, int],
) -> None:
    """A client that cannot be known is answered at once; LeaveGroup ends a membership in each of its forms."""
    with Members.of(fleet, topic, assignor=ASSIGNORS[client]) as members:
        members.join("one", client)
        members.join("two", client)
        members.wait_settled(places)
        members.wait_until("a heartbeat of each is seen", lambda: len(holds[members.group]) >= 2)
        members.close("one")
        members.wait_settled(places)
        assert {api: versions[api] for api in expected} == {api: {version} for api, version in expected.items()}
        assert any(holds[members.group]) == (client in HELD)


@pytest.mark.parametrize(
    ("client", "callback"),
    [
        ("confluent-kafka", "lost"),
        ("kafka-python", "lost"),
        ("aiokafka", "revoked"),
        ("kafkajs", "assigned"),
        ("kcat", "revoked"),
    ],
)
def test_put_out_and_back(
    broker: Broker,
    fleet: Fleet,
    kafka_python: KafkaPython,
    topic: str,
    places: set[Place],
    client: str,
    callback: str,
) -> None:
    """A member that an administrator removes is told UNKNOWN_MEMBER_ID, and comes back under another id.

    What it had is lost to it: librdkafka and kafka-python say so, aiokafka revokes, KafkaJS is silent about it.
    """
    with Members.of(fleet, topic, assignor=ASSIGNORS[client], commit="auto") as members:
        members.join("one", client)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 2))
        (old,) = view_group(broker, members.group).members
        since = members.now
        removed = kafka_python.admin.remove_group_members(members.group, [MemberToRemove(member_id=old)])
        assert list(removed.values()) == [NoError]
        members.wait_until("it is back", lambda: is_another(broker, members.group, old))
        members.wait_until("it says so", lambda: ("assigned", places) in members.rebalances("one", since))
        members.wait_settled(places)
        assert members.rebalances("one", since)[0] == (callback, places)
        members.wait_read(fleet.produce(places, 2))


def is_another(broker: Broker, group_id: str, old: str) -> bool:
    members = view_group(broker, group_id).members
    return len(members) == 1 and old not in members
