"""Rules 2.8, 2.9 and 2.11: how a join phase begins and ends, who leads, what the timers do."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    Context,
    assignment,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))
RANGE_STICKY = protocols("range", "sticky")


# -- 2.8 prepareRebalance, initial delay, completion


def test_2_8_prepare_1_resets_assignments_and_answers_parked_syncs_with_27_and_rearms_them() -> None:
    ctx = Context()
    _, b, _ = ctx.completing("a", "b", "c")
    call = b.sync()
    ctx.advance(4_000)
    ctx.client("d").enter(version=3)
    assert (call.error, call.reply.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert b.deadline == SESSION


def test_2_8_prepare_2_clears_the_pending_syncs_and_their_timer() -> None:
    ctx = Context()
    ctx.completing("a", "b")
    assert len(ctx.group().pending_sync) == 2
    ctx.client("d").enter(version=3)
    assert ctx.group().pending_sync == set()
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SYNC, "g")) is None


def test_2_8_prepare_4_waits_for_the_largest_rebalance_timeout() -> None:
    ctx = Context()
    a, _ = ctx.stable(ctx.client("a", rebalance=20_000), ctx.client("b", rebalance=90_000))
    call = a.join()
    for _ in range(17):
        ctx.advance(5_000)
        ctx.heartbeat(("g", "b-2", 1, None))
    assert call.is_parked
    ctx.advance(5_000)
    assert call.reply.generation_id == 2


def test_2_8_prepare_4_completes_at_once_if_all_have_joined() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert a.join().reply.generation_id == 2


@pytest.mark.parametrize(
    ("delay", "rebalance", "arrivals", "ends"),
    [
        (3_000, 60_000, [0], 3_000),
        (3_000, 60_000, [0, 1_000], 6_000),
        (3_000, 60_000, [0, 2_999], 6_000),
        (3_000, 60_000, [0, 1_000, 1_500], 6_000),
        (3_000, 60_000, [0, 1_000, 4_000], 9_000),
        (3_000, 10_000, [0, 1_000, 4_000, 7_000, 9_500], 10_000),  # the example of rule 2.8: 3, 6, 9, 10
        (3_000, 2_000, [0, 1_000], 3_000),  # nothing remains
        (3_000, 4_000, [0, 1_000, 3_500], 4_000),
        (0, 60_000, [0], 0),
        (0, 60_000, [0, 0, 0], 0),
    ],
)
def test_2_8_the_initial_delay(delay: int, rebalance: int, arrivals: list[int], ends: int) -> None:
    ctx = Context(group_initial_rebalance_delay_ms=delay)
    calls = []
    for place, at in enumerate(arrivals):
        if place and at > arrivals[place - 1]:
            ctx.advance(at - arrivals[place - 1])
        calls.append(ctx.client(f"c{place}").join(version=3, rebalance=rebalance))
    if delay:
        ctx.advance(ends - arrivals[-1] - 1)
        assert [call.is_parked for call in calls] == [True] * len(calls)
        ctx.advance(1)
    else:
        assert calls[-1].is_parked
        ctx.advance(0)  # the next tick
    assert {call.reply.generation_id for call in calls} == {1}


def test_2_8_the_remaining_delay_is_not_recomputed_for_later_members() -> None:
    ctx = Context()
    first = ctx.client("a").join(version=3, rebalance=5_000)
    ctx.advance(1_000)
    ctx.client("b").join(version=3, rebalance=600_000)
    ctx.advance(2_500)
    ctx.client("c").join(version=3, rebalance=600_000)
    ctx.advance(1_499)
    assert first.is_parked
    ctx.advance(1)
    assert first.reply.generation_id == 1


def test_2_8_a_member_added_in_an_earlier_initial_phase_does_not_extend_the_delay_of_a_later_one() -> None:
    ctx = Context(group_initial_rebalance_delay_early=False)
    a, b = ctx.client("a", rebalance=DELAY), ctx.client("b")
    a.enter()
    b.enter()
    ctx.advance(DELAY)
    assert b.generation_id == 1  # nothing remained to extend it by
    ctx.leave((a.member_id, None), (b.member_id, None))
    call = ctx.client("c").enter()
    ctx.advance(DELAY)
    assert call.reply.generation_id == 3


@pytest.mark.parametrize("rejoin", ["rejoin", "static replacement"])
def test_2_8_rejoins_and_replacements_do_not_extend_the_initial_delay(rejoin: str) -> None:
    ctx = Context()
    a = ctx.client("a", instance="i" if rejoin != "rejoin" else None)
    a.enter()
    ctx.advance(1_000)
    call = a.join() if rejoin == "rejoin" else a.restart()
    ctx.advance(2_000)
    assert call.reply.generation_id == 1


def test_2_8_everybody_joined_does_not_end_the_initial_delay() -> None:
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    calls = [a.enter(), b.enter(), a.join()]
    assert calls[2].is_parked
    c = ctx.client("c")
    c.join()
    c.leave()  # of a reserved id
    assert calls[2].is_parked


def test_2_8_expiry_of_a_pending_member_ends_the_initial_delay_if_all_others_have_joined() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=30_000)
    a, b = ctx.client("a"), ctx.client("b", session=6_000)
    b.join()
    call = a.enter()
    ctx.advance(5_999)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_2_8_expiry_of_a_new_member_ends_the_initial_delay_if_all_others_have_joined() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=400_000)
    a, b = ctx.client("a"), ctx.client("b")
    old = a.enter(rebalance=500_000)
    ctx.advance(1_000)
    call = b.enter()
    ctx.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1_000)
    assert (old.error, old.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (call.reply.generation_id, call.reply.leader) == (1, b.member_id)


def test_2_8_outside_the_initial_phase_pending_members_hold_the_phase_open_until_they_expire() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    p = ctx.client("p", session=7_000)
    p.join()
    call = a.join()
    b.join()
    ctx.advance(6_999)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 2


@pytest.mark.parametrize("how", ["join", "leave", "join timer"])
def test_2_8_pending_members_hold_the_phase_open_until(how: str) -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    p = ctx.client("p", session=100_000)
    p.join()
    call = a.join()
    b.join()
    assert call.is_parked
    if how == "join":
        p.join()
    elif how == "leave":
        p.leave()
    else:
        ctx.advance(REBALANCE)
    assert call.reply.generation_id == 2
    assert len(call.reply.members) == (3 if how == "join" else 2)


def test_2_8_complete_1_removes_dynamic_members_that_have_not_rejoined_and_keeps_static_ones() -> None:
    ctx = Context()
    a, b, s = ctx.stable("a", "b", ctx.client("s", instance="i", session=100_000))
    call = a.join()
    for _ in range(12):
        b.heartbeat()
        ctx.advance(5_000)
    assert [row.member_id for row in call.reply.members] == [a.member_id, s.member_id]
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.deadline is None
    left = ctx.last_event(MemberLeft)
    assert (left.who.member_id, left.departure, left.limit_ms) == (b.member_id, Departure.JOIN_EXPIRED, REBALANCE)


def test_2_8_complete_3_keeps_the_leader_if_it_has_rejoined_else_takes_one_that_has() -> None:
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    c.join(offered=OTHER)
    b.join()
    call = a.join()
    assert call.reply.leader == a.member_id
    c.join(offered=protocols("range"))
    b.join()
    for _ in range(12):
        a.heartbeat()
        ctx.advance(5_000)
    assert b.member.member_id == ctx.group().leader


def test_2_8_complete_3_with_only_absent_static_members_the_join_timer_is_armed_again() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i", session=150_000, rebalance=40_000))
    ctx.leave(("a-1", None))
    assert ctx.state is PR
    for _ in range(3):
        ctx.advance(40_000)
        assert (ctx.state, ctx.group().generation_id) == (PR, 1)
        assert ctx.shard.timers.deadline(TimerKey(TimerKind.JOIN, "g")) == ctx.now + 40_000
    ctx.advance(30_000)  # its session ends
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)
    assert s.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("rebalance", [0, -1, -(2**31)])
def test_2_8_a_rebalance_timeout_of_nothing_does_no_harm(rebalance: int) -> None:
    ctx = Context()
    ctx.client("a", rebalance=rebalance).enter()
    ctx.client("s", instance="i", rebalance=rebalance).enter()
    ctx.advance(DELAY)
    ctx.advance(10_000)
    assert ctx.state is EMPTY  # who does not sync at once is out at once


def test_2_8_only_absent_static_members_with_a_rebalance_timeout_of_nothing_do_not_stop_the_clock() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    s.member.rebalance_timeout_ms = 0
    a.leave()
    ctx.advance(SESSION - 1)
    assert ctx.state is PR
    ctx.advance(1)
    assert ctx.state is EMPTY


def test_2_8_complete_4_with_members_selects_the_protocol_and_goes_to_completing() -> None:
    ctx = Context()
    a, b = ctx.stable(ctx.client("a", offered=RANGE_STICKY), ctx.client("b", offered=protocols("range")))
    b.leave()
    call = a.join(offered=protocols("sticky", "range"))
    assert (call.reply.protocol_name, ctx.state, ctx.group().generation_id) == ("sticky", CR, 2)
    assert ctx.group().subscribed_topics == {"t"}


def test_2_8_complete_4_without_members_writes_a_record_and_keeps_the_protocol_type() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    group = ctx.group()
    assert (group.state, group.generation_id, group.protocol_name, group.protocol_type) == (EMPTY, 2, None, "consumer")
    value: Any = ctx.records[-1].value
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert value.protocol_type == "consumer"


def test_2_8_complete_5_all_members_get_a_fresh_session_and_must_sync_also_absent_static_ones() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i", session=70_000))
    a.join()
    ctx.advance(REBALANCE)
    assert ctx.state is CR
    assert (a.deadline, s.deadline) == (SESSION, 70_000)
    assert ctx.group().pending_sync == {a.member_id, s.member_id}


def test_2_8_complete_6_the_sync_timer_is_the_largest_rebalance_timeout() -> None:
    ctx = Context()
    ctx.completing(ctx.client("a", rebalance=20_000), ctx.client("b", rebalance=90_000))
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SYNC, "g")) == ctx.now + 90_000


def test_2_8_generation_starts_at_0_and_grows_by_1_with_every_join_phase() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.join()
    assert ctx.group().generation_id == 0
    a.join()
    ctx.advance(DELAY)
    assert a.generation_id == 1
    assert a.join(offered=OTHER).reply.generation_id == 2
    a.leave()
    assert ctx.group().generation_id == 3  # also when it becomes Empty
    a.enter()
    ctx.advance(DELAY)
    assert a.generation_id == 4
    a.leave()
    ctx.delete_group()
    a.enter()
    ctx.advance(DELAY)
    assert a.generation_id == 1  # another group


# -- 2.9 leader rules


def test_2_9_the_first_member_leads() -> None:
    ctx = Context()
    calls = [ctx.client(name).enter() for name in "abc"]
    ctx.advance(2 * DELAY)
    assert {call.reply.leader for call in calls} == {"a-1"}


@pytest.mark.parametrize("how", ["leaves", "expires", "is expelled"])
def test_2_9_when_the_leader_is_removed_the_first_remaining_member_leads(how: str) -> None:
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    if how == "leaves":
        a.leave()
    elif how == "expires":
        ctx.advance(5_000)
        b.heartbeat()
        c.heartbeat()
        ctx.advance(5_000)
    else:
        ctx.config = Context(group_max_size=2).config
        ctx.restart()
        c.join()
        b.join()
        a.join()
    assert ctx.group().leader == b.member_id


def test_2_9_when_the_last_member_is_removed_nobody_leads() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert ctx.group().leader is None
    ctx.client("b").enter()
    assert ctx.group().leader == "b-2"


@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_2_9_a_replaced_static_leader_leads_under_its_new_id(state: State) -> None:
    ctx = Context()
    s, b = ctx.client("s", instance="i"), ctx.client("b")
    (ctx.completing if state is CR else ctx.stable)(s, b)
    if state is PR:
        b.join(offered=OTHER)
    s.restart()
    assert ctx.group().leader == "i-3"


def test_2_9_the_leader_is_loaded_from_the_log() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    b.join(offered=OTHER)
    for _ in range(12):
        a.heartbeat()
        ctx.advance(5_000)
    c = ctx.client("c")
    c.enter()
    b.join(offered=OTHER)
    b.sync({b: assignment(0), c: assignment(1)})
    ctx.restart()
    assert ctx.group().leader == b.member_id


# -- 2.11 timers


def test_2_11_a_pending_member_has_the_session_timeout_of_its_request() -> None:
    ctx = Context()
    p = ctx.client("p", session=7_000)
    p.join()
    assert p.deadline == 7_000
    ctx.advance(7_000)
    assert ctx.group().pending_members == set()
    assert p.join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_11_a_new_member_expires_after_five_minutes_while_it_is_parked() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", rebalance=600_000))
    c = ctx.client("c")
    call = c.enter()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert call.is_parked
        a.heartbeat()
        b.heartbeat()
        ctx.advance(5_000)
    assert (call.error, call.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    left = ctx.last_event(MemberLeft)
    assert (left.departure, left.limit_ms) == (Departure.FIRST_JOIN_EXPIRED, NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert (ctx.state, len(ctx.group().members)) == (PR, 2)


def test_2_11_a_member_waiting_in_join_is_ignored_and_armed_again_when_answered() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    call = a.join()
    for _ in range(6):
        b.heartbeat()
        ctx.advance(5_000)
    assert (call.is_parked, a.deadline) == (True, None)
    b.join()
    assert (call.error, a.deadline) == (ErrorCode.NONE, SESSION)


def test_2_11_a_member_waiting_in_sync_is_ignored_and_armed_again_when_answered() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    call = b.sync()
    for _ in range(6):
        a.heartbeat()
        ctx.advance(5_000)
    assert (call.is_parked, b.deadline) == (True, None)
    a.sync({b: assignment(0)})
    assert (call.error, b.deadline) == (ErrorCode.NONE, SESSION)


@pytest.mark.parametrize("state", [CR, STABLE])
def test_2_11_a_silent_member_is_removed_and_the_group_rebalanced(state: State) -> None:
    ctx = Context()
    a, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    ctx.advance(SESSION - 1)
    assert len(ctx.group().members) == 2
    a.heartbeat()
    ctx.advance(1)
    assert (ctx.state, list(ctx.group().members)) == (PR, [a.member_id])
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_11_in_preparing_the_expiry_of_the_last_one_missing_completes() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    call = a.join()
    ctx.advance(SESSION)
    assert (call.reply.generation_id, len(call.reply.members)) == (2, 1)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_2_11_static_and_dynamic_members_expire_alike(kind: str) -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", instance="i" if kind == "static" else None))
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)
    assert b.member_id not in ctx.group().members
