"""Faults on demand, by real clients: what a test does to members, and what they make of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from equipoise import Admin, Broker, Consumer, Producer, TopicPartition
from equipoise.broker.live_group import LiveGroup
from equipoise.errors import CommitFailedError, UsageError
from equipoise.testing import Delay, Fail, Lose, Trigger
from equipoise.wire.errors import ErrorCode

PATIENCE_S = 20
PROTOCOLS: dict[str, dict[str, object]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
ORDERS_0 = TopicPartition("orders", 0)


def until(condition: Callable[[], object], members: list[Consumer]) -> None:
    """Polls all members until it is so."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends
        for one in members:
            one.poll(0.01)


class Club:
    """Members of one group, by client id."""

    def __init__(self, broker: Broker, stack: ExitStack) -> None:
        self.broker, self._stack = broker, stack
        self.members: list[Consumer] = []

    def join(self, client_id: str, **settings: object) -> Consumer:
        member = Consumer(
            {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "club", "client.id": client_id}
            | ({} if settings.get("group_protocol") == "consumer" else {"heartbeat.interval.ms": 100})
            | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
            | {name.replace("_", "."): value for name, value in settings.items()}
        )
        self._stack.enter_context(member)
        member.subscribe(["orders"])
        self.members.append(member)
        return member

    def settle(self) -> None:
        """All partitions are shared, and everybody has some."""
        until(self.is_settled, self.members)

    def is_settled(self) -> bool:
        owned = [one for member in self.members for one in member.assignment()]
        return len(owned) == len(set(owned)) == 6 and all(member.assignment() for member in self.members)

    @property
    def group(self) -> LiveGroup:
        return self.broker.groups["club"]

    def causes(self) -> list[Trigger]:
        return [one.cause.trigger for one in self.group.rebalances]


@pytest.fixture
def club() -> Iterator[Club]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 100}
    limits = {"group.consumer.min.heartbeat.interval.ms": 100, "group.min.session.timeout.ms": 300}
    limits |= {"group.consumer.assignment.interval.ms": 0}
    with Broker(settings | limits, topics={"orders": 6}) as broker, ExitStack() as stack:
        yield Club(broker, stack)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_kicked_member_comes_back(club: Club, protocol: str) -> None:
    for name in ("a", "b"):
        club.join(name, **PROTOCOLS[protocol])
    club.settle()
    before = {one.client_id: one.member_id for one in club.group.members}
    club.group.kick("b")
    assert [one.client_id for one in club.group.members] == ["a"]
    until(lambda: len(club.group.members) == 2, club.members)
    club.settle()
    until(lambda: Trigger.MEMBER_REMOVED in club.causes(), club.members)
    after = {one.client_id: one.member_id for one in club.group.members}
    assert after["a"] == before["a"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_expired_member_comes_back(club: Club, protocol: str) -> None:
    for name in ("a", "b"):
        club.join(name, **PROTOCOLS[protocol])
    club.settle()
    club.group.expire("b")
    until(lambda: len(club.group.members) == 2, club.members)
    club.settle()
    until(lambda: Trigger.SESSION_EXPIRED in club.causes(), club.members)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rebalance_without_a_cause(club: Club, protocol: str) -> None:
    for name in ("a", "b"):
        club.join(name, **PROTOCOLS[protocol])
    club.settle()
    generation = club.group.generation_id
    club.group.rebalance()
    until(lambda: club.group.generation_id > generation and club.group.state == "Stable", club.members)
    assert Trigger.REBALANCE_FORCED in club.causes()
    club.settle()


def test_a_group_that_changes_its_kind_tells_each_rebalance_once(club: Club) -> None:
    """A forced rebalance makes an incremental group classic; its journal goes on."""
    for name in ("a", "b"):
        club.join(name, **PROTOCOLS["cooperative"])
    club.settle()
    club.group.rebalance()
    until(lambda: Trigger.REBALANCE_FORCED in club.causes(), club.members)
    generations = [one.generation for one in club.group.rebalances]
    assert generations == sorted(set(generations))


def test_paused_heartbeats_make_a_zombie(club: Club) -> None:
    """It believes that it is a member, until it commits."""
    zombie = club.join("zombie", session_timeout_ms=500)
    club.settle()
    with club.group.pause_heartbeats("zombie") as paused:
        until(lambda: not club.group.members, [zombie])
        assert Trigger.SESSION_EXPIRED in club.causes()
        assert len(zombie.assignment()) == 6
        hits = paused.hits
        with pytest.raises(CommitFailedError):
            zombie.commit({ORDERS_0: 0})
        assert (hits > 0, paused.fault.apis) == (True, ("Heartbeat", "ConsumerGroupHeartbeat"))  # commits are served
    until(lambda: club.group.members, [zombie])


def test_a_lost_answer_of_a_commit(club: Club) -> None:
    """The commit is there, and is made again: the client cannot know."""
    member = club.join("a")
    club.settle()
    lost = club.group.lose("OffsetCommit")
    member.commit({ORDERS_0: 7})
    assert lost.hits == 1
    assert lost.is_spent
    assert member.committed([ORDERS_0])[ORDERS_0].offset == 7


def test_a_late_answer_and_an_error(club: Club) -> None:
    member = club.join("a")
    club.settle()
    began = time.monotonic()
    with club.group.delay("OffsetCommit", 300, who="a") as late:
        member.commit({ORDERS_0: 1})
    assert time.monotonic() - began >= 0.3
    assert late.hits == 1
    refused = club.group.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    member.commit({ORDERS_0: 2})  # it tries again
    assert refused.hits == 2
    assert member.committed([ORDERS_0])[ORDERS_0].offset == 2


def test_requests_that_name_a_group_or_a_member_in_their_own_way(club: Club) -> None:
    """Several groups, keys of coordinators, and rows of members that leave."""
    member = club.join("a")
    club.settle()
    member_id = member.member_id
    others = [club.broker.control(Delay(apis=[api], group="others", ms=1)) for api in ("DescribeGroups", "OffsetFetch")]
    described, fetched = club.group.delay("DescribeGroups", 1), club.group.delay("OffsetFetch", 1)
    with Admin(club.broker.bootstrap_servers) as admin:
        admin.describe_groups(["club"])
        admin.committed("club")
    assert [one.hits for one in others] == [0, 0]
    assert described.hits == 1
    assert fetched.hits  # the member may ask, too
    found = club.group.delay("FindCoordinator", 1)
    left = club.group.delay("LeaveGroup", 1, who=member_id)
    member.close()
    with Consumer({"bootstrap.servers": club.broker.bootstrap_servers, "group.id": "club"}) as second:
        second.committed([ORDERS_0])
    assert found.hits
    assert left.hits == 1


def test_a_fenced_static_member(club: Club) -> None:
    member = club.join("a", group_instance_id="seat-1")
    club.settle()
    with pytest.raises(Exception, match=r"FENCED_INSTANCE_ID|group\.instance\.id"):  # noqa: PT012
        club.group.fence("seat-1")
        until(lambda: False, [member])


def test_a_cut_connection_heals(club: Club) -> None:
    with Producer({"bootstrap.servers": club.broker.bootstrap_servers}) as producer:
        for number in range(6):
            producer.send("orders", b"1", partition=number)
    a = club.join("a")
    club.settle()
    with club.group.cut("a") as cut:
        until(lambda: cut.hits >= 2, [a])
    with Producer({"bootstrap.servers": club.broker.bootstrap_servers}) as producer:
        producer.send("orders", b"after", partition=3)
    until(lambda: b"after" in {one.value for one in a.poll(0.01)}, [])


def test_clear_refusals(club: Club) -> None:
    club.join("a")
    club.settle()
    with pytest.raises(UsageError, match=r"there is no member 'nobody'; .* \(client id a\)"):
        club.group.kick("nobody")
    with pytest.raises(UsageError, match=r"no group\.instance\.id"):
        club.group.fence("a")
    with pytest.raises(UsageError, match="no API 'Hearbeat' is served"):
        Delay(apis=["Hearbeat"], ms=1)
    with pytest.raises(UsageError, match=r"Fetch cannot be failed: .*JoinGroup"):
        Fail(apis=["Fetch"], error=ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, "UNKNOWN_MEMBER_ID"])
def test_an_error_may_be_given_by_its_name(club: Club, error: ErrorCode | str) -> None:
    """Else the answer could not be encoded, and the connection would end instead."""
    member = club.join("a", default_api_timeout_ms=20_000)
    club.settle()
    with club.group.fail("OffsetCommit", error) as failing, pytest.raises(CommitFailedError):
        member.commit({ORDERS_0: 0})
    assert failing.hits == 1


def test_faults_that_make_no_sense_are_refused(club: Club) -> None:
    club.join("a")
    club.settle()
    for wrong in ("FOO", 9999, None):
        with pytest.raises(UsageError, match="Kafka has no error"):
            club.group.fail("OffsetCommit", wrong)  # type: ignore[arg-type]
    for ms in ("5", -5, 0.5, None, True):
        with pytest.raises(UsageError, match=r"ms is .*: give an integer of 0 or more"):
            club.group.delay("OffsetCommit", ms)  # type: ignore[arg-type]
    for times in (0, -1, "1", True):
        with pytest.raises(UsageError, match=r"times is .*: give an integer of 1 or more"):
            club.group.delay("OffsetCommit", 5, times=times)  # type: ignore[arg-type]
    assert club.broker.call(lambda server: server.control) is None  # nothing is in force


def test_a_stock_client_survives_a_lost_join_answer(club: Club) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    lost = club.broker.control(Lose(apis=["JoinGroup"], times=1))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": club.broker.bootstrap_servers, "group.id": "club", "session.timeout.ms": 6000}
    )
    try:
        consumer.subscribe(["orders"])
        ends = time.monotonic() + PATIENCE_S
        while len(consumer.assignment()) != 6:
            assert time.monotonic() < ends
            consumer.poll(0.05)
        assert lost.hits == 1
    finally:
        consumer.close()
