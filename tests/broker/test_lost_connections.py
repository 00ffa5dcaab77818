"""Connections that end under members, on a broker with real sockets and a clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.consumer.group import Presence
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient, request_frame
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


# -- members of `consumer` groups


def introduced(client: RawClient) -> RawClient:
    """A client whose heartbeats are held."""
    client.call(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2"), 3)
    return client


def beat(member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    joining: dict[str, Any] = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **(joining if epoch == 0 else {})
    )


def held_members(broker: Broker, connect: Connect, *names: str) -> dict[str, RawClient]:
    """Members of a `consumer` group, each with a heartbeat that is held."""
    clients = {name: introduced(connect(broker)) for name in names}
    epochs = {name: client.call(beat(name, 0), 1).member_epoch for name, client in clients.items()}
    last = max(epochs.values())
    for name, client in clients.items():
        if epochs[name] < last:
            assert client.call(beat(name, epochs[name]), 1).member_epoch == last
        client.send(beat(name, last), 1)
    eventually(lambda: all(ask_core(broker, "is_held", name) for name in names), "all are held")
    return clients


def ask_core(broker: Broker, what: str, member_id: str) -> object:
    return broker.call(lambda server: getattr(server.group_coordinator.shard_of("g").core, what)("g", member_id))


def is_cut_off(broker: Broker, member_id: str) -> bool:
    presence = ask_core(broker, "presence_of", member_id)
    assert isinstance(presence, Presence)
    return presence.lost_at is not None


@pytest.mark.parametrize(("comes", "limit"), [("nobody", 2_000), ("another client", 2_000), ("the client", 5_500)])
def test_a_client_that_is_cut_off_and_alive_connects_again(
    start: Start, clock: StandingClock, connect: Connect, comes: str, limit: int
) -> None:
    """Rule 7.9.3: its next heartbeat may be due much later than the grace is over."""
    broker = start({**SETTINGS, "group.consumer.assignment.interval.ms": 0}, clock=clock)
    clients = held_members(broker, connect, "a", "b", "c")
    clients["b"].close()
    eventually(lambda: is_cut_off(broker, "b"), "the loss is noticed")
    advance(broker, clock, 300)
    if comes == "the client":
        introduced(connect(broker))
    elif comes == "another client":
        client = connect(broker)
        request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2")
        client.send_bytes(request_frame(request, 3, client_id="another"))
        client.receive_frame()
    advance(broker, clock, limit - 301)
    assert ask_core(broker, "presence_of", "b") is not None
    advance(broker, clock, 1)
    assert ask_core(broker, "presence_of", "b") is None
    assert ask_core(broker, "presence_of", "a") is not None


def test_a_client_is_awaited_for_the_grace_and_no_longer(start: Start, clock: StandingClock, connect: Connect) -> None:
    """Rule 7.9.3: names of clients that never come again are forgotten."""
    broker = start({**SETTINGS, "group.consumer.assignment.interval.ms": 0}, clock=clock)
    clients = held_members(broker, connect, "a", "b", "c", "d", "e")
    clients["b"].close()
    eventually(lambda: is_cut_off(broker, "b"), "the loss is noticed")
    advance(broker, clock, 2_001)
    broker.call(lambda server: server.group_coordinator.carriers.came(("raw", "nowhere"), server.clock.now()))
    clients["c"].close()
    eventually(lambda: is_cut_off(broker, "c"), "the loss is noticed")
    awaited = broker.call(lambda server: dict(server.group_coordinator.carriers.awaited))
    assert [keys for _, keys in awaited.values()] == [[("g", "c")]]
