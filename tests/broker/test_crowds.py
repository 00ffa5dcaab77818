"""Groups of thousands: what comes together is served in slices, so that others' heartbeats go in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.groups import shards
from equipoise.broker.handlers import HANDLERS
from equipoise.broker.server import Server
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import heartbeat, join, sync

SETTINGS = {"group.initial.rebalance.delay.ms": 0}
CROWD = 2_400  # joins of some 50 us: several times what is served at once
JOIN, HEARTBEAT = 11, 12


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The API keys of group requests, in the order in which they were served."""
    served: list[int] = []

    def noting(key: int, handle: Callable[..., Any]) -> Callable[..., Any]:
        def listen(server: Server, request: Any, call: Any) -> Any:
            served.append(key)
            return handle(server, request, call)

        return listen

    for key in (JOIN, HEARTBEAT):
        monkeypatch.setattr(HANDLERS[key], "handle", noting(key, HANDLERS[key].handle))
    return served


def settle(client: RawClient, group: str) -> str:
    member_id: str = client.call(join(group=group)).member_id
    assert client.call(join(member_id, group)).error_code == ErrorCode.NONE
    assert client.call(sync(member_id, group)).error_code == ErrorCode.NONE
    return member_id


def test_a_heartbeat_does_not_wait_for_a_crowd_that_joins(start: Start, connect: Connect, order: list[int]) -> None:
    """All have come before the broker looks: it reads everybody, and serves the heartbeat before most of the joins."""
    broker = start(SETTINGS)
    other = connect(broker)
    member_id = settle(other, "other")
    crowd = [connect(broker) for _ in range(400)]
    order.clear()
    let_go = threading.Event()
    stopped = threading.Thread(target=lambda: broker.call(lambda _: let_go.wait()))
    stopped.start()
    for number in range(CROWD):
        crowd[number % len(crowd)].send(join(group=f"big{number % 50}"))
    other.send(heartbeat(member_id, "other"))
    let_go.set()
    stopped.join()
    assert other.receive().error_code == ErrorCode.NONE
    for number in range(CROWD):
        assert crowd[number % len(crowd)].receive().error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert order.count(JOIN) == CROWD
    assert order.index(HEARTBEAT) < CROWD * 0.9


def test_thousands_that_leave_with_one_request_do_so_in_portions(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    portions: list[int] = []
    leave_group = Shard.leave_group

    def noting(self: Shard, request: LeaveGroupRequest, *rest: Any) -> Any:
        portions.append(len(request.members))
        return leave_group(self, request, *rest)

    monkeypatch.setattr(Shard, "leave_group", noting)
    broker = start(
        {**SETTINGS, "group.initial.rebalance.delay.ms": 60_000, "group.initial.rebalance.delay.quiet.ms": 0}
    )
    client = connect(broker)
    ids = [client.call(join(session_timeout_ms=300_000)).member_id for _ in range(1_100)]
    rows = [MemberIdentity(member_id=one) for one in [*ids, "nobody"]]
    answer = client.call(LeaveGroupRequest(group_id="g", member_id="", members=rows))
    assert answer.error_code == ErrorCode.NONE
    assert [row.member_id for row in answer.members] == [*ids, "nobody"]
    assert [row.error_code for row in answer.members] == [ErrorCode.NONE] * 1_100 + [ErrorCode.UNKNOWN_MEMBER_ID]
    assert portions == [500, 500, 101]
    eventually(lambda: not broker.call(_pending), "nobody is expected any more")


def _pending(server: Server) -> int:
    return len(server.group_coordinator.shard_of("g").core.groups["g"].pending_members)


def test_records_become_bytes_in_turns(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A write of many records takes several turns; what was decided behind it is written behind it."""
    monkeypatch.setattr(shards, "_ENCODING_S", 0.0)
    monkeypatch.setattr(shards, "_MOST_WRITES", 2)
    settings: dict[str, object] = {"group.consumer.assignment.interval.ms": 0}
    broker = start(settings, data=tmp_path, topics={"t": 12})
    clients = [connect(broker) for _ in range(12)]
    for number, client in enumerate(clients):
        client.send(_consumer_join(f"m{number}"), 1)
    assert [client.receive().error_code for client in clients] == [ErrorCode.NONE] * 12
    eventually(lambda: _targets(broker) == {f"m{number}": 1 for number in range(12)}, "everybody has a target")
    eventually(lambda: broker.call(_is_durable), "all of it is written")
    before = broker.call(_group)
    broker.stop()
    again = start(settings, data=tmp_path)
    eventually(lambda: again.call(_is_loaded), "the group is loaded")
    assert again.call(_group) == before


def _is_durable(server: Server) -> bool:
    return not server.group_coordinator.shard_of("g").core.unwritten


def _is_loaded(server: Server) -> bool:
    return server.group_coordinator.shard_of("g").core.status is Status.ACTIVE


def _consumer_join(member_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def _group(server: Server) -> ConsumerGroup:
    return copy(server.group_coordinator.shard_of("g").core.consumer_groups["g"])


def _targets(broker: Broker) -> dict[str, int]:
    return {member_id: len(target) for member_id, target in broker.call(_group).targets.items()}


def test_a_write_that_is_too_large_does_not_hold_up_those_behind_it(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is refused as soon as it is seen to be too large, and the others are written."""
    broker = start({"group.consumer.assignment.interval.ms": 0}, data=tmp_path, topics={"t": 1})
    client, other = connect(broker), connect(broker)
    client.call(_consumer_join("a"), 1)
    large = _consumer_join("b")
    large.subscribed_topic_names = [f"{number:05}" * 40 for number in range(6_000)]
    client.send(large, 1)
    other.send(_consumer_join("c"), 1)
    assert client.receive().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert other.receive().error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert other.call(_consumer_join("c"), 1).error_code == ErrorCode.NONE
