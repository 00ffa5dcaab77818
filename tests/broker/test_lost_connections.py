"""Connections that end under members, on a broker with real sockets and a clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.classic.group import Group
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import join, leave, sync

QUIET, INTERVAL, OVERDUE, SESSION = 250, 3_000, 3_500, 45_000
SETTINGS: dict[str, object] = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.early": "false"}


class Member:
    """A member of a group on a connection of its own."""

    def __init__(self, client: RawClient, group: str = "g") -> None:
        self.client = client
        self.group = group
        self.member_id = client.call(join(group=group, session_timeout_ms=SESSION), 5).member_id
        self.generation = 0

    def joins(self) -> None:
        self.client.send(join(self.member_id, group=self.group, session_timeout_ms=SESSION), 5)

    def is_answered(self) -> None:
        response = self.client.receive()
        assert response.error_code == ErrorCode.NONE
        self.generation = response.generation_id

    def syncs(self) -> None:
        self.sends_sync()
        self.is_synced()

    def sends_sync(self) -> None:
        self.client.send(sync(self.member_id, self.group, generation_id=self.generation), 5)

    def is_synced(self) -> None:
        assert self.client.receive().error_code == ErrorCode.NONE

    def beats(self, client: RawClient | None = None) -> int:
        request = HeartbeatRequest(group_id=self.group, member_id=self.member_id, generation_id=self.generation)
        return int((client or self.client).call(request, 3).error_code)


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def lossy(start: Start, clock: StandingClock) -> Broker:
    return start(SETTINGS, clock=clock)


def look(broker: Broker, what: Callable[[Group], object], group: str = "g") -> object:
    def ask(server: Server) -> object:
        return what(server.group_coordinator.shard_of(group).core.groups[group])

    return broker.call(ask)


def is_lost(broker: Broker, member: Member) -> bool:
    return bool(look(broker, lambda group: group.members[member.member_id].lost_at is not None, member.group))


def carriers(broker: Broker) -> int:
    return broker.call(lambda server: server.group_coordinator.carriers.count)


def ids(broker: Broker, group: str = "g") -> list[str]:
    found = look(broker, lambda one: list(one.members), group)
    assert isinstance(found, list)
    return found


def stable(broker: Broker, clock: StandingClock, connect: Connect, count: int, group: str = "g") -> list[Member]:
    """A Stable group of so many members."""
    found = [Member(connect(broker), group) for _ in range(count)]
    for one in found:
        one.joins()
    eventually(lambda: look(broker, lambda one: one.joined == count, group), "all are waiting")
    advance(broker, clock, QUIET)
    for one in found:
        one.is_answered()
    for one in found:
        one.sends_sync()
    for one in found:
        one.is_synced()
    advance(broker, clock, INTERVAL)
    for one in found:
        assert one.beats() == ErrorCode.NONE
    return found


def test_a_process_that_dies_makes_room_for_the_others(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    a, b, c = stable(lossy, clock, connect, 3)
    b.client.close()
    eventually(lambda: is_lost(lossy, b), "the loss is noticed")
    advance(lossy, clock, OVERDUE - 1)
    assert a.beats() == ErrorCode.NONE
    advance(lossy, clock, 1)
    assert (a.beats(), c.beats()) == (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS)
    assert b.member_id not in ids(lossy)


def test_a_member_on_another_connection_is_no_loss(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    a, b, _ = stable(lossy, clock, connect, 3)
    b.client.close()
    eventually(lambda: is_lost(lossy, b), "the loss is noticed")
    assert b.beats(connect(lossy)) == ErrorCode.NONE
    advance(lossy, clock, 2 * OVERDUE)
    assert a.beats() == ErrorCode.NONE


def test_the_last_of_several_connections_counts(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    """Some clients have a connection for commits alone."""
    _, b, _ = stable(lossy, clock, connect, 3)
    other = connect(lossy)
    assert b.beats(other) == ErrorCode.NONE
    b.client.close()
    eventually(lambda: carriers(lossy) == 3, "the connection is gone")
    assert not is_lost(lossy, b)
    other.close()
    eventually(lambda: is_lost(lossy, b), "the loss is noticed")


def test_a_leave_is_no_loss(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    _, b, _ = stable(lossy, clock, connect, 3)
    b.client.call(leave(b.member_id), 5)
    b.client.close()
    eventually(lambda: carriers(lossy) == 2, "the connection is gone")
    assert b.member_id not in ids(lossy)


def test_connections_that_the_broker_closes_say_nothing(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    _, b, _ = stable(lossy, clock, connect, 3)
    lossy.call(lambda server: max(server.connections, key=lambda one: b.member_id in str(one.carried.members)).close())
    eventually(lambda: carriers(lossy) == 2, "the connection is gone")
    assert not is_lost(lossy, b)


def test_many_connections_at_once_are_no_crash(lossy: Broker, clock: StandingClock, connect: Connect) -> None:
    """One member of each group: in no group is it the most, on the broker it is."""
    groups = [stable(lossy, clock, connect, 2, f"g{number}") for number in range(4)]
    for group in groups:
        group[0].client.close()
    eventually(lambda: carriers(lossy) == 4, "the connections are gone")
    groups[0][1].client.close()
    eventually(lambda: carriers(lossy) == 3, "one more is gone")
    assert not any(is_lost(lossy, group[0]) for group in groups)
    advance(lossy, clock, 2 * OVERDUE)
    assert [len(ids(lossy, f"g{number}")) for number in range(4)] == [2] * 4


def test_members_that_come_and_go_are_not_remembered_for_ever(
    lossy: Broker, clock: StandingClock, connect: Connect
) -> None:
    client = connect(lossy)
    for _ in range(200):
        one = Member(client)
        one.joins()
        eventually(lambda: look(lossy, lambda group: group.joined == 1), "it waits")
        advance(lossy, clock, QUIET)
        one.is_answered()
        one.syncs()
        client.call(leave(one.member_id), 5)
    carried = lossy.call(lambda server: [len(one.carried.members) for one in server.connections])
    assert max(carried) <= 65
