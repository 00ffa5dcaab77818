"""Rules C1 and C2: which groups are kept incremental, and how they turn."""

from __future__ import annotations

import struct

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.incremental.eligibility import Mode, eligible_protocol
from equipoise.wire.consumer_protocol import (
    MOST_ELEMENTS,
    StickyUserData,
    Subscription,
    encode_sticky_user_data,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from tests.incremental.stage import Kept
from tests.spec.context import DELAY, RANGE, TOPIC, Context, assignment, protocols

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def with_data(protocol: str, data: bytes | None) -> list[tuple[str, bytes]]:
    return [(protocol, encode_subscription(Subscription(topics=[TOPIC], user_data=data)))]


# -- C1: the switch


@pytest.mark.parametrize(
    ("mode", "eager", "is_kept"),
    [
        ("off", False, False),
        ("cooperative", False, True),
        ("cooperative", True, False),
        ("all", False, True),
        ("all", True, True),
    ],
)
def test_c1_1_the_setting_says_which_groups(mode: str, eager: bool, is_kept: bool) -> None:
    ctx = Kept(group_rebalance_incremental=mode)
    ctx.guests("a", "b", eager=eager)
    assert ctx.is_classic is not is_kept


def test_c1_1_a_group_may_have_its_own_setting() -> None:
    ctx = Kept(group_rebalance_incremental="off")
    ctx.set_mode("cooperative")
    ctx.guests("a")
    assert not ctx.is_classic


def test_c1_2_cooperative_means_that_all_can_be_nothing_else() -> None:
    both = protocols("cooperative-sticky", "range")
    assert eligible_protocol(Mode.COOPERATIVE, [protocols("cooperative-sticky"), both]) is None
    assert eligible_protocol(Mode.ALL, [protocols("cooperative-sticky"), both]) == "cooperative-sticky"
    assert eligible_protocol(Mode.COOPERATIVE, [protocols("cooperative-sticky")]) == "cooperative-sticky"
    assert eligible_protocol(Mode.OFF, [protocols("cooperative-sticky")]) is None


def test_c1_3_without_members_it_is_a_classic_group() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    a.commit({0: 7}, topic_id=bytes(range(16)))
    a.leave()
    b.leave()
    assert (ctx.state, ctx.group().generation_id, ctx.group().members) == (State.EMPTY, 3, {})
    assert ctx.fetch_offset(0, topic_id=bytes(range(16))) == 7
    assert (ctx.list()[0].protocol_type, ctx.journal()[-1].generation) == ("consumer", 3)
    loaded = ctx.group()
    ctx.restart()
    assert (ctx.state, ctx.group().generation_id) == (State.EMPTY, loaded.generation_id)
    c = ctx.guest("c")
    c.enter()
    ctx.advance(2 * DELAY)
    c.sync({c: assignment(0, 1, 2, 3, 4, 5)})
    assert (ctx.is_classic, c.generation_id) == (False, 4)


def test_c1_3_another_setting_counts_with_the_next_join() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    ctx.set_mode("off")
    assert (a.told, ctx.is_classic) == (NONE, False)
    call = a.again()
    assert (ctx.is_classic, ctx.state, call.is_parked) == (True, State.PREPARING_REBALANCE, True)
    assert b.told is REJOIN
    b.again()
    assert call.reply.leader == a.member_id


def test_c1_4_the_first_generation_has_the_initial_delay_and_a_leader() -> None:
    ctx = Kept()
    a, b = ctx.guest("a"), ctx.guest("b")
    first, second = a.enter(), b.enter()
    assert (first.is_parked, second.is_parked, ctx.state) == (True, True, State.PREPARING_REBALANCE)
    ctx.advance(2 * DELAY)
    assert first.reply.leader == a.member_id
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    assert (ctx.is_classic, a.told, b.told) == (False, NONE, NONE)


def test_c1_4_a_burst_within_the_debounce_costs_one_target() -> None:
    ctx = Kept(group_rebalance_debounce_ms=100)
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    ctx.advance(50)
    c = ctx.entered("c")
    assert (a.told, ctx.consumer_group.target_epoch) == (NONE, 1)
    calls = b.sync(), c.sync()
    ctx.advance(50)
    assert ctx.consumer_group.target_epoch == ctx.consumer_group.group_epoch == 3
    a.yield_up()
    assert [len(one.late(call)) for one, call in zip((b, c), calls, strict=True)] == [2, 2]


# -- C2: eligibility


def test_c2_1_other_protocol_types_stay_classic() -> None:
    ctx = Kept()
    a = ctx.client("a", protocol_type="connect", protocols=RANGE)
    a.enter()
    ctx.advance(2 * DELAY)
    a.sync({a: b"x"}, protocol_type="connect")
    assert (ctx.is_classic, ctx.state) == (True, State.STABLE)


@pytest.mark.parametrize("names", [["mine"], ["stream"], ["RoundRobinAssigner"], ["mine", "range"]])
def test_c2_2_a_custom_assignor_is_never_overridden(names: list[str]) -> None:
    ctx = Kept()
    a = ctx.client("a", protocols=protocols(*names))
    a.enter()
    ctx.advance(2 * DELAY)
    assert a.leader == a.member_id
    a.sync({a: assignment(0)}, protocol_name=names[0])
    assert (ctx.is_classic, ctx.state) == (True, State.STABLE)
    assert ctx.client("b", protocols=protocols(*names)).enter().is_parked  # by the rules of classic groups


def test_c2_3_a_subscription_must_be_readable() -> None:
    assert eligible_protocol(Mode.ALL, [[("range", b"\x00\x01\x00")]]) is None
    assert eligible_protocol(Mode.ALL, [[("range", b"")]]) is None


def test_c2_3_a_subscription_that_takes_long_to_read_is_not_read() -> None:
    """Where all are looked at: of the joiner, of members, and of user data."""
    longest = MOST_ELEMENTS - 2  # the topic, in both lists
    for owned, is_eligible in ((longest, True), (longest + 1, False)):
        metadata = encode_subscription(Subscription(topics=[TOPIC], owned_partitions={TOPIC: list(range(owned))}))
        offered = [("cooperative-sticky", metadata)]
        assert (eligible_protocol(Mode.COOPERATIVE, [offered]) is not None) is is_eligible
        assert (eligible_protocol(Mode.ALL, [offered, protocols("cooperative-sticky")]) is not None) is is_eligible
    data = encode_sticky_user_data(StickyUserData(owned_partitions={TOPIC: list(range(longest + 2))}))
    assert eligible_protocol(Mode.ALL, [with_data("sticky", data)]) is None


def test_c2_3_a_member_with_too_many_partitions_turns_the_group_classic() -> None:
    """As one whose subscription cannot be read."""
    ctx = Kept(partitions=2)
    a, _ = ctx.members("a", "b")
    a.again(owned=range(MOST_ELEMENTS))
    assert (ctx.is_classic, ctx.state) == (True, State.PREPARING_REBALANCE)


STICKY_DATA = encode_sticky_user_data(StickyUserData(owned_partitions={TOPIC: [1]}, generation_id=3))


@pytest.mark.parametrize(
    ("protocol", "data", "is_eligible"),
    [
        ("range", None, True),
        ("range", b"", True),
        ("range", b"weight", False),
        ("roundrobin", b"\x00", False),
        ("cooperative-sticky", None, True),
        ("cooperative-sticky", struct.pack(">i", 4), True),
        ("cooperative-sticky", STICKY_DATA, True),  # librdkafka
        ("cooperative-sticky", b"other", False),
        ("sticky", None, True),
        ("sticky", STICKY_DATA, True),
        ("sticky", STICKY_DATA[:-4], True),  # v0
        ("sticky", b"\x00\x01" + STICKY_DATA, True),  # kafka-python
        ("sticky", b"lag=3", False),
    ],
)
def test_c2_4_user_data_must_be_understood(protocol: str, data: bytes | None, is_eligible: bool) -> None:
    found = eligible_protocol(Mode.ALL, [with_data(protocol, data)])
    assert found == (protocol if is_eligible else None)


def test_c2_5_another_protocol_type_cannot_join() -> None:
    ctx = Kept()
    ctx.members("a")
    other = ctx.guest("b").join("", protocol_type="connect")
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unknown = ctx.guest("b").join("", offered=protocols("mine"))
    assert unknown.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not ctx.is_classic


def test_c2_6_the_size_limit_holds() -> None:
    ctx = Kept(group_max_size=2)
    ctx.members("a", "b")
    reply = ctx.guest("c").join("").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_c2_7_a_newcomer_that_is_not_eligible_turns_the_group_classic() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    held = a.heartbeat(hold_ms=3_000)
    c = ctx.client("c", protocols=with_data("cooperative-sticky", b"other"))
    assert c.join("").error is ErrorCode.MEMBER_ID_REQUIRED
    assert not ctx.is_classic
    call = c.join()
    assert (ctx.is_classic, ctx.state, call.is_parked) == (True, State.PREPARING_REBALANCE, True)
    assert (held.error, b.told) == (REJOIN, REJOIN)
    a.again()
    b.again()
    assert call.reply.leader == a.member_id
    assert a.members != []


def test_c2_7_members_that_lag_behind_lose_nothing() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    b.leave()
    ctx.advance(1)
    a.again()
    a.got()
    d = ctx.entered("d")
    d.sync()
    a.yield_up()
    assert ctx.consumer_group.members[a.member_id].member_epoch < ctx.consumer_group.group_epoch + 1
    c = ctx.client("c", protocols=with_data("cooperative-sticky", b"other"))
    c.enter()
    assert (a.told, d.told) == (REJOIN, REJOIN)
    assert a.commit({0: 1}, topic_id=bytes(range(16))).error is NONE


def test_c2_7_who_waits_is_told_to_rejoin() -> None:
    ctx = Kept()
    ctx.members("a")
    call = ctx.entered("b").sync()
    assert call.is_parked
    ctx.client("c", protocols=with_data("cooperative-sticky", b"other")).enter()
    assert call.error is REJOIN


def test_c2_8_a_stable_group_turns_with_a_join_and_nobody_notices() -> None:
    ctx = Kept(group_rebalance_incremental="off")
    a, b = ctx.guests("a", "b")
    held = a.heartbeat(hold_ms=3_000)
    ctx.set_mode("cooperative")
    assert ctx.is_classic
    c = ctx.guest("c")
    c.join("")
    assert (ctx.is_classic, held.is_parked, b.heartbeat().error) == (False, True, NONE)
    group = ctx.consumer_group
    assert {one.member_epoch for one in group.members.values()} == {1}
    assert (group.group_epoch, group.target_epoch) == (1, 1)
    c.join()
    assert held.error is REJOIN


def test_c2_8_it_does_not_turn_between_two_rounds() -> None:
    """After the first round of a cooperative rebalance a member may still have what it was not assigned any more."""
    ctx = Kept(group_rebalance_incremental="off")
    a = ctx.members_of_a_classic_group("a")[0]
    b = ctx.guest("b")
    b.enter()
    a.again()
    ctx.set_mode("all")
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment()})
    assert (ctx.is_classic, ctx.state) == (True, State.STABLE)
    a.again(owned={0, 1, 2})
    assert (ctx.is_classic, ctx.state) == (True, State.PREPARING_REBALANCE)
    b.again(owned=())
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    assert not ctx.is_classic


def test_c2_8_it_does_not_turn_while_a_partition_is_assigned_to_nobody() -> None:
    """A leader that did not know the topic yet rejoins, and must be heard: the server would keep its assignment."""
    ctx = Kept(group_rebalance_incremental="all")
    a = ctx.guest("a")
    a.enter()
    ctx.advance(3_000)
    a.sync({a: assignment()})
    assert (ctx.is_classic, ctx.state) == (True, State.STABLE)
    a.again(owned=())
    a.sync({a: assignment(0, 1, 2, 3, 4, 5)})
    assert not ctx.is_classic


def test_c2_8_it_does_not_turn_while_a_static_members_new_id_is_not_durable() -> None:
    """Its JoinGroup is parked until then, and would be forgotten."""
    ctx = Kept(group_rebalance_incremental="off")
    a = ctx.guest("a", instance="A")
    b = ctx.guest("b")
    for one in (a, b):
        one.enter()
    ctx.advance(2 * DELAY)
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    ctx.hold_writes()
    back = a.offer(owned=()).join("")
    ctx.set_mode("cooperative")
    assert back.is_parked
    b.join()
    ctx.durable()
    assert (ctx.is_classic, back.error) == (True, NONE)
    ctx.holds_writes = False
    b.join()
    assert (ctx.is_classic, a.heartbeat().error) == (False, NONE)


def test_c2_8_a_hold_ends_in_its_time_across_the_turn() -> None:
    ctx = Kept(group_rebalance_incremental="off")
    a, _ = ctx.guests("a", "b")
    held = a.heartbeat(hold_ms=3_000)
    ctx.set_mode("cooperative")
    ctx.guest("c").join("")
    ctx.advance(3_000)
    assert held.error is NONE


def test_c2_8_a_turn_that_cannot_be_written_has_not_happened() -> None:
    ctx = Kept(group_rebalance_incremental="off")
    a, b = ctx.guests("a", "b")
    held = a.heartbeat(hold_ms=3_000)
    ctx.set_mode("cooperative")
    ctx.hold_writes()
    ctx.guest("c").join("")
    ctx.fail_writes()
    ctx.holds_writes = False
    assert (ctx.is_classic, ctx.state, held.error) == (True, State.STABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (a.heartbeat().error, b.heartbeat().error) == (NONE, NONE)


def test_i9_a_turn_there_and_back_keeps_every_assignment() -> None:
    ctx = Kept(group_rebalance_incremental="off")
    clients = ctx.guests("a", "b", "c")
    before = {one: member.assignment for one, member in ctx.group().members.items()}
    ctx.set_mode("all")
    ctx.guest("d").join("")
    assert not ctx.is_classic
    ctx.set_mode("off")
    clients[0].offer()  # type: ignore[attr-defined]
    clients[0].join()
    assert {one: member.assignment for one, member in ctx.group().members.items()} == before


def test_c7_2_off_after_a_restart_turns_it_classic_with_one_rebalance() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    ctx.config = Context(group_consumer_assignment_interval_ms=0).config
    ctx.restart()
    assert (ctx.is_classic, ctx.state, ctx.group().generation_id) == (True, State.PREPARING_REBALANCE, 1)
    assert (a.told, b.told) == (REJOIN, REJOIN)
    a.again()
    b.again()
    assert a.generation_id == b.generation_id == 2
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    assert (ctx.state, a.told, b.told) == (State.STABLE, NONE, NONE)
