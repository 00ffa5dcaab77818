"""Groups of thousands: what comes together is served in slices, so that others' heartbeats go in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker.handlers import HANDLERS
from equipoise.broker.server import Server
from equipoise.coordinator.shard import Shard
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
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
