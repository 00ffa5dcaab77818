"""Incremental groups over real sockets, on a clock that stands: rows 122, 125 to 127 and 131 of the plan of tests.

`tests/incremental/` shows the same rules on the coordinator alone; here answers wait for their connections and for the
disk, and a restart is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.incremental.calls import PATIENCE_MS
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient
from tests.spec.requests import describe, leave

GROUP, TOPIC, PARTITIONS = "g", "t", 6
SESSION_MS = 30_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.rebalance.incremental": "all",
    "group.lost.connection.grace.ms": 0,  # who dies is found out by its session
}
NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
COOPERATIVE = "cooperative-sticky"


class Town:
    """A broker on a standing clock, and who has come to it."""

    def __init__(self, start: Start, connect: Connect, settings: dict[str, Any], **options: Any) -> None:
        self._start, self._connect, self._options = start, connect, options
        self.clock = StandingClock()
        self.broker: Broker = start(settings, clock=self.clock, **options)
        create_topic(connect(self.broker), TOPIC, PARTITIONS)

    def client(self) -> RawClient:
        return self._connect(self.broker)

    def member(self, protocol: str = COOPERATIVE, user_data: bytes | None = None) -> Classic:
        return Classic(self, protocol, user_data)

    def settled(self, count: int) -> list[Classic]:
        """So many cooperative members, each with its share, in a group that is kept incremental."""
        found = [self.member()]
        found[0].found_group()
        for _ in range(count - 1):
            found.append(self.member())
            assert found[-1].enter().leader == ""
            found[-1].send_sync()
            settle(found)
        return found

    @property
    def is_kept(self) -> bool:
        """Whether the broker keeps the group as an incremental one."""

        def look(server: Any) -> bool:
            group = server.group_coordinator.shard_of(GROUP).core.consumer_groups.get(GROUP)
            return group is not None and group.incremental is not None

        return self.broker.call(look)

    @property
    def state(self) -> str:
        return str(self.client().call(describe(GROUP)).groups[0].group_state)

    def advance(self, by: int) -> None:
        advance(self.broker, self.clock, by)

    def end_initial_delay(self) -> None:
        self.until_parked(1)
        self.advance(0)

    def until_parked(self, count: int) -> None:
        eventually(lambda: waiting_calls(self.broker) == count, f"{count} requests wait")

    def restart(self, settings: dict[str, Any]) -> None:
        """As another release with other settings, on the same disk."""
        self.broker.stop()
        self.broker = self._start(settings, clock=self.clock, **self._options)
        client = self.client()
        eventually(lambda: client.call(describe(GROUP)).groups[0].error_code == NONE, "the group is loaded")


class Classic:
    """A classic client, which does one thing at a time."""

    def __init__(self, town: Town, protocol: str, user_data: bytes | None) -> None:
        self.town, self.protocol, self.user_data = town, protocol, user_data
        self.client = town.client()
        self.member_id, self.generation = "", -1
        self.leader: str | None = None
        self.owned: set[int] = set()
        self.must_sync = self.is_syncing = self.must_rejoin = False

    def reconnect(self) -> None:
        self.client = self.town.client()

    # -- requests

    def _join_request(self) -> JoinGroupRequest:
        owned = {TOPIC: sorted(self.owned)} if self.owned else {}
        claim = Subscription(
            topics=[TOPIC], user_data=self.user_data, owned_partitions=owned, generation_id=self.generation
        )
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=2 * SESSION_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=encode_subscription(claim))],
        )

    def ask_for_id(self) -> None:
        answer = self.client.call(self._join_request())
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, answer
        self.member_id = answer.member_id

    def send_join(self) -> None:
        self.client.send(self._join_request())

    def joined(self) -> Any:
        answer = self.client.receive()
        assert answer.error_code == NONE, answer
        self.generation, self.leader = answer.generation_id, answer.leader
        self.must_sync, self.must_rejoin = True, False
        return answer

    def join(self) -> Any:
        self.send_join()
        return self.joined()

    def enter(self) -> Any:
        self.ask_for_id()
        return self.join()

    def send_sync(self, shares: Mapping[Classic, Iterable[int]] | None = None) -> None:
        given = [
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=encode_assignment(_assignment(share)))
            for one, share in (shares or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=given,
        )
        self.client.send(request)
        self.must_sync, self.is_syncing = False, True

    def synced(self) -> set[int]:
        """What it has from now on. A cooperative client that loses something by it rejoins."""
        answer = self.client.receive()
        self.is_syncing = False
        assert answer.error_code == NONE, answer
        got = set(decode_assignment(bytes(answer.assignment)).assigned_partitions.get(TOPIC, []))
        self.owned, self.must_rejoin = got, not self.owned <= got
        return self.owned

    def sync(self) -> set[int]:
        self.send_sync()
        return self.synced()

    @property
    def told(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return ErrorCode(self.client.call(request).error_code)

    # -- ways

    def found_group(self) -> None:
        """The first generation is a classic one, in which it leads and takes everything."""
        self.ask_for_id()
        self.send_join()
        self.town.end_initial_delay()
        assert self.joined().leader == self.member_id
        self.send_sync({self: range(PARTITIONS)})
        assert len(self.synced()) == PARTITIONS

    def live(self) -> bool:
        """What a client does next; whether there was anything to do."""
        if self.is_syncing:
            if self.client.has_reply():
                self.synced()
            return True
        if not self.must_sync:
            if self.generation >= 0 and not self.must_rejoin and self.told is NONE:
                return False
            if not self.member_id:
                self.ask_for_id()
            self.join()
        self.send_sync()
        return True

    def yield_up(self) -> None:
        """As a cooperative loser: joins, hears what is left, gives up the rest, joins again."""
        assert self.told is REJOIN
        self.join()
        self.sync()
        self.join()
        self.sync()

    def hear(self) -> None:
        assert self.told is REJOIN

    def leave(self) -> None:
        assert self.client.call(leave(self.member_id, GROUP)).members[0].error_code == NONE

    def die(self) -> None:
        self.client.close()


def _assignment(share: Iterable[int]) -> Assignment:
    return Assignment(assigned_partitions={TOPIC: sorted(share)})


def settle(members: list[Classic]) -> None:
    """All do what clients do, until each partition has one owner and nobody has anything to do."""

    def is_settled() -> bool:
        has_moved = [member.live() for member in members]
        owned = [number for member in members for number in member.owned]
        assert len(owned) == len(set(owned)), f"a partition has two owners: {[one.owned for one in members]}"
        shares = [len(member.owned) for member in members]
        is_fair = len(owned) == PARTITIONS and max(shares) - min(shares) <= 1
        return is_fair and not any(has_moved) and not any(member.is_syncing for member in members)

    eventually(is_settled, "the group has settled")


@pytest.fixture
def town(start: Start, connect: Connect) -> Town:
    return Town(start, connect, SETTINGS)


# -- 122


def test_a_newcomer_has_one_answer_when_all_is_free(town: Town) -> None:
    first, second = town.settled(2)
    third = town.member()
    assert third.enter().leader == ""
    third.send_sync()
    town.until_parked(1)
    first.yield_up()
    assert not third.client.has_reply()
    second.yield_up()
    assert len(third.synced()) == 2
    assert {one.told for one in (first, second, third)} == {NONE}
    assert town.state == "Stable"


def test_with_a_loser_that_is_stuck_it_gets_a_part_and_the_rest_later(town: Town) -> None:
    first, stuck = town.settled(2)
    third = town.member()
    third.enter()
    third.send_sync()
    town.until_parked(1)
    first.yield_up()
    town.advance(PATIENCE_MS - 1)
    assert not third.client.has_reply()
    town.advance(1)
    assert len(third.synced()) == 1
    assert third.told is NONE
    stuck.yield_up()
    assert third.told is REJOIN
    third.join()
    assert len(third.sync()) == 2
    assert town.state == "Stable"


# -- 125


@pytest.mark.parametrize(
    ("protocol", "user_data"),
    [
        ("mine", None),  # a custom assignor
        ("RoundRobinAssigner", None),  # as kafkajs has it
        ("range", b"mine"),  # a custom assignor that has kept the name
        ("stream", b"\x00\x00\x00\x0c"),  # Kafka Streams
    ],
)
def test_groups_that_are_not_eligible_have_a_leader(town: Town, protocol: str, user_data: bytes | None) -> None:
    first, second = town.member(protocol, user_data), town.member(protocol, user_data)
    first.found_group()
    second.ask_for_id()
    second.send_join()
    town.until_parked(1)
    assert first.told is REJOIN
    assert not second.client.has_reply()  # everybody is waited for
    first.send_join()
    assert first.joined().leader == second.joined().leader == first.member_id
    second.send_sync()
    first.send_sync({first: range(3), second: range(3, PARTITIONS)})
    assert first.synced() | second.synced() == set(range(PARTITIONS))
    assert not town.is_kept


# -- 126


def test_a_newcomer_that_is_not_eligible_turns_the_group_classic(town: Town) -> None:
    """Nobody loses anything by it, and nobody is told that it is out."""
    members = town.settled(2)
    assert town.is_kept
    newcomer = town.member(user_data=b"other")
    newcomer.ask_for_id()
    newcomer.send_join()
    town.until_parked(1)
    assert not town.is_kept
    assert [one.told for one in members] == [REJOIN, REJOIN]
    members += [newcomer]
    led = rejoin_classic(members[:2], waiting=newcomer)
    assert sorted(len(one.owned) for one in members) == [2, 2, 2]
    assert led.member_id in {one.member_id for one in members}
    assert [one.told for one in members] == [NONE] * 3
    assert (town.state, town.is_kept) == ("Stable", False)


def rejoin_classic(members: list[Classic], waiting: Classic | None = None) -> Classic:
    """One classic rebalance; its leader shares out without regard to who had what."""
    for one in members:
        one.send_join()
    everybody = [*members, *([] if waiting is None else [waiting])]
    leader = {one.joined().leader for one in everybody}
    (led,) = [one for one in everybody if {one.member_id} == leader]
    shares = {one: range(number, PARTITIONS, len(everybody)) for number, one in enumerate(everybody)}
    for one in everybody:
        if one is not led:
            one.send_sync()
    led.send_sync(shares)
    for one in everybody:
        one.synced()
    return led


# -- 127

# A move of partitions, request by request.
MOVE = [
    "gainer ask_for_id",
    "gainer join",
    "gainer send_sync",
    "loser hear",
    "loser join",
    "loser sync",
    "loser join",
    "gainer synced",
    "loser sync",
]


def move(loser: Classic, gainer: Classic, steps: int) -> None:
    """The first steps of it."""
    for step in MOVE[:steps]:
        who, what = step.split()
        getattr(loser if who == "loser" else gainer, what)()


@pytest.mark.parametrize("dying", ["loser", "gainer", "both"])
@pytest.mark.parametrize("steps", range(len(MOVE) + 1))
def test_whoever_dies_in_a_move_is_done_without(town: Town, steps: int, dying: str) -> None:
    loser, gainer = town.settled(1)[0], town.member()
    move(loser, gainer, steps)
    dead = [one for one, name in ((loser, "loser"), (gainer, "gainer")) if dying in (name, "both")]
    left = [one for one in (loser, gainer) if one not in dead and one.member_id]
    for one in dead:
        one.die()
    if not left:
        left = [town.member()]
    settle_without(town, left)
    assert set().union(*(one.owned for one in left)) == set(range(PARTITIONS))
    assert town.state == "Stable"


def settle_without(town: Town, left: list[Classic]) -> None:
    """Time passes, in which the dead go; who is left lives on."""
    for _ in range(30):
        for one in left:
            one.live()
        town.advance(2_000)
    settle(left)


@pytest.mark.parametrize("steps", range(len(MOVE) + 1))
def test_a_restart_in_a_move_changes_nothing(start: Start, connect: Connect, tmp_path: Path, steps: int) -> None:
    town = Town(start, connect, SETTINGS, data=tmp_path)
    loser, gainer = town.settled(1)[0], town.member()
    move(loser, gainer, steps)
    town.restart(SETTINGS)
    for one in (loser, gainer):
        one.reconnect()
        one.must_sync = one.is_syncing = False  # its answer is lost, and a client rejoins for that
        one.must_rejoin = one.must_rejoin or not one.owned
    if gainer.generation < 0:
        gainer.member_id = ""  # ids that were given out and not used are not kept
    settle([loser, gainer])
    assert (town.state, town.is_kept) == ("Stable", True)


# -- 131


def test_off_after_a_restart_makes_it_classic_with_one_rebalance(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    town = Town(start, connect, SETTINGS, data=tmp_path)
    members = town.settled(2)
    before = max(one.generation for one in members)
    town.restart({**SETTINGS, "group.rebalance.incremental": "off"})
    for one in members:
        one.reconnect()
    assert [one.told for one in members] == [REJOIN, REJOIN]
    rejoin_classic(members)
    assert {one.generation for one in members} == {before + 1}
    assert [one.told for one in members] == [NONE, NONE]
    assert (town.state, town.is_kept) == ("Stable", False)
