"""Rules of part 3: SyncGroup, Heartbeat, LeaveGroup. What only a handler knows is in test_handlers."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    Client,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))


# -- 3.1 SyncGroup


@pytest.mark.parametrize(
    ("row", "about", "error"),
    [
        ("3 empty group id", ("", "x", 0, None), ErrorCode.INVALID_GROUP_ID),
        ("5 group unknown", ("other", "x", 0, None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("7 iid unknown", ("g", "a", 9, "unheard"), ErrorCode.UNKNOWN_MEMBER_ID),
        ("7 iid of another", ("g", "a", 9, "i"), ErrorCode.FENCED_INSTANCE_ID),
        ("7 mid unknown", ("g", "x", 9, None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("8 generation", ("g", "a", 0, None), ErrorCode.ILLEGAL_GENERATION),
        ("8 generation ahead", ("g", "a", 2, None), ErrorCode.ILLEGAL_GENERATION),
        ("9 protocol", ("g", "a", 1, None), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_3_1_validation_order(
    row: str, about: tuple[str, str, int, str | None], error: ErrorCode, state: State
) -> None:
    """The protocol named is wrong in every row, so 9 is the last to hit; all come before the state (10 to 12)."""
    ctx = Context()
    a, s = ctx.client("a"), ctx.client("s", instance="i")
    (ctx.completing if state is CR else ctx.stable)(a, s)
    if state is PR:
        ctx.client("n").enter(version=3)
    group, member_id, generation_id, instance = about
    member_id = a.member_id if member_id == "a" else member_id
    call = ctx.sync((group, member_id, generation_id, instance), {}, protocol=("consumer", "unheard"))
    reply = call.reply
    assert (call.error, reply.assignment, reply.protocol_type, reply.protocol_name) == (error, b"", None, None), row


def test_3_1_4_loading_is_27_and_not_coordinator_16() -> None:
    """27 and not 14, as rule 5.4 says: several clients take 14 as fatal here, and the rebalance is lost anyway."""
    ctx = Context()
    ctx.load()
    assert ctx.sync(("g", "a", 1, None), {}).error is ErrorCode.REBALANCE_IN_PROGRESS
    ctx.close()
    assert ctx.sync(("g", "a", 1, None), {}).error is ErrorCode.NOT_COORDINATOR


def test_3_1_5_empty_is_25() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert a.sync().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("wrong", [("connect", "range"), ("consumer", "sticky")])
def test_3_1_9_type_and_name_are_both_compared(wrong: tuple[str, str]) -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert a.sync(protocol=wrong).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_3_1_9_before_v5_nothing_is_compared_and_nothing_answered() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    reply = a.sync(version=4, protocol=("connect", "sticky")).reply
    assert (reply.error_code, reply.protocol_type, reply.protocol_name) == (ErrorCode.NONE, None, None)


def test_3_1_9_from_v5_type_and_name_are_answered() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    reply = a.sync().reply
    assert (reply.error_code, reply.protocol_type, reply.protocol_name) == (ErrorCode.NONE, "consumer", "range")


def test_3_1_10_preparing_is_27() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    assert b.sync().error is ErrorCode.REBALANCE_IN_PROGRESS


def test_3_1_11_followers_are_parked_until_the_leaders_assignment_is_durable() -> None:
    ctx = Context()
    a, b, c = ctx.completing("a", "b", "c")
    ctx.hold_writes()
    early = b.sync()
    leader = a.sync({a: assignment(0), b: assignment(1), c: assignment(2)})
    late = c.sync()
    assert [call.is_parked for call in (early, leader, late)] == [True] * 3
    ctx.durable()
    assert [partitions_in(call.reply.assignment) for call in (leader, early, late)] == [[0], [1], [2]]
    assert ctx.state is STABLE


def test_3_1_11_a_sync_drops_the_member_from_the_pending_ones_and_the_last_cancels_the_timer() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    b.sync()
    assert ctx.group().pending_sync == {a.member_id}
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SYNC, "g")) is not None
    ctx.hold_writes()
    a.sync()
    assert ctx.group().pending_sync == set()
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SYNC, "g")) is None


def test_3_1_11_members_missing_from_the_assignment_get_empty_bytes_and_strangers_are_ignored() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    call = b.sync()
    shares: dict[Client | str, bytes] = {a: assignment(0), "stranger": assignment(1)}
    a.sync(shares)
    assert (call.error, call.reply.assignment) == (ErrorCode.NONE, b"")
    value: Any = ctx.records[-1].value
    assert [(row.member_id, row.assignment) for row in value.members] == [(a.member_id, assignment(0)), ("b-2", b"")]


def test_3_1_11_assignments_of_a_follower_are_ignored() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    call = b.sync({a: assignment(7), b: assignment(8)})
    a.sync({b: assignment(1)})
    assert partitions_in(call.reply.assignment) == [1]


def test_3_1_11_write_failure_resets_and_answers_all_and_rebalances() -> None:
    ctx = Context()
    a, b, c = ctx.completing("a", "b", "c")
    ctx.hold_writes()
    calls = [b.sync(), a.sync({b: assignment(1)})]
    ctx.advance(1_000)
    ctx.fail_writes()
    assert [call.error for call in calls] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert ctx.state is PR
    assert [member.assignment for member in ctx.group().members.values()] == [b"", b"", b""]
    assert (a.deadline, b.deadline, c.deadline) == (SESSION, SESSION, SESSION - 1_000)


def test_3_1_11_a_rebalance_that_starts_while_the_write_is_outstanding_makes_its_end_mean_nothing() -> None:
    for fails in (False, True):
        ctx = Context()
        a, b = ctx.completing("a", "b")
        ctx.hold_writes()
        call = a.sync({a: assignment(0)})
        b.leave()
        assert call.error is ErrorCode.REBALANCE_IN_PROGRESS
        (ctx.fail_writes if fails else ctx.durable)()
        assert (ctx.state, a.member.assignment) == (PR, b"")


def test_3_1_a_second_sync_replaces_the_parked_one_which_is_answered_once() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    first = b.sync()
    second = b.sync()
    assert (first.error, second.is_parked) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
    a.sync({b: assignment(1)})
    assert partitions_in(second.reply.assignment) == [1]


def test_3_1_a_second_assignment_of_the_leader_does_not_compete_with_the_first() -> None:
    """While the first is being written; else members would be told the first and a restart would know the second."""
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.hold_writes()
    a.sync({a: assignment(0), b: assignment(1)})
    again = a.sync({a: assignment(1), b: assignment(0)})
    ctx.durable()
    assert partitions_in(again.reply.assignment) == [0]
    ctx.restart()
    assert partitions_in(b.sync().reply.assignment) == [1]


def test_3_1_the_next_generation_takes_a_new_assignment_also_after_one_that_was_overtaken() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.hold_writes()
    a.sync({a: assignment(0)})
    b.join(offered=OTHER)
    a.join()
    assert a.generation_id == 2
    call = a.sync({a: assignment(5)})
    ctx.durable()
    assert partitions_in(call.reply.assignment) == [5]


def test_3_1_12_stable_drops_the_pending_sync_and_answers_what_is_stored() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    a.sync({b: assignment(1)})
    assert (ctx.state, ctx.group().pending_sync) == (STABLE, {b.member_id})
    assert partitions_in(b.sync().reply.assignment) == [1]
    assert ctx.group().pending_sync == set()
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SYNC, "g")) is None


# -- 3.2 pending-sync expiry


@pytest.mark.parametrize("state", [CR, STABLE])
def test_3_2_members_that_never_synced_are_removed_static_ones_too(state: State) -> None:
    ctx = Context()
    clients = ctx.completing("a", "b", "c", ctx.client("s", instance="i"))
    a, b, c, s = clients
    parked = b.sync()
    if state is STABLE:
        a.sync()
    for _ in range(REBALANCE // 5_000 - 1):
        ctx.advance(5_000)
        for client in clients:
            client.heartbeat()
    ctx.advance(4_999)
    assert ctx.state is state
    ctx.advance(1)
    assert ctx.state is PR
    stay = [b.member_id] if state is CR else [a.member_id, b.member_id]
    assert list(ctx.group().members) == stay
    assert (c.deadline, s.deadline) == (None, None)
    assert parked.error is (ErrorCode.REBALANCE_IN_PROGRESS if state is CR else ErrorCode.NONE)
    gone = [(event.who.member_id, event.departure, event.limit_ms) for event in ctx.all_events(MemberLeft)]
    left = [client.member_id for client in clients if client.member_id not in stay]
    assert gone == [(member_id, Departure.SYNC_EXPIRED, REBALANCE) for member_id in left]


def test_3_2_nothing_happens_if_all_have_synced() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    for _ in range(REBALANCE // 5_000 + 2):
        ctx.advance(5_000)
        a.heartbeat()
        b.heartbeat()
    assert (ctx.state, ctx.group().generation_id) == (STABLE, 1)


def test_3_2_nothing_happens_in_the_next_generation() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.advance(5_000)
    b.join(offered=OTHER)
    a.join()
    assert (ctx.state, ctx.group().generation_id) == (CR, 2)
    for _ in range(11):
        ctx.advance(5_000)
        a.heartbeat()
        b.heartbeat()
    assert ctx.state is CR
    ctx.advance(4_999)
    assert ctx.state is CR
    ctx.advance(1)
    assert ctx.state is EMPTY


# -- 3.3 Heartbeat


@pytest.mark.parametrize(
    ("row", "about", "error"),
    [
        ("empty group id", ("", "x", 0, None), ErrorCode.INVALID_GROUP_ID),
        ("unknown group", ("other", "x", 0, None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("iid unknown", ("g", "a", 9, "unheard"), ErrorCode.UNKNOWN_MEMBER_ID),
        ("iid of another", ("g", "a", 9, "i"), ErrorCode.FENCED_INSTANCE_ID),
        ("mid unknown", ("g", "x", 9, None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("generation", ("g", "a", 0, None), ErrorCode.ILLEGAL_GENERATION),
    ],
)
@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_3_3_validation_order(
    row: str, about: tuple[str, str, int, str | None], error: ErrorCode, state: State
) -> None:
    ctx = Context()
    a, s = ctx.client("a"), ctx.client("s", instance="i")
    (ctx.completing if state is CR else ctx.stable)(a, s)
    if state is PR:
        ctx.client("n").enter(version=3)
    ctx.advance(1_000)
    group, member_id, generation_id, instance = about
    member_id = a.member_id if member_id == "a" else member_id
    assert ctx.heartbeat((group, member_id, generation_id, instance)).error is error, row
    assert a.deadline == SESSION - 1_000  # who is refused is not kept alive


def test_3_3_loading_is_answered_with_success_and_not_coordinator_with_16() -> None:
    ctx = Context()
    ctx.load()
    assert ctx.heartbeat(("g", "a", 1, None)).error is ErrorCode.NONE
    ctx.close()
    assert ctx.heartbeat(("g", "a", 1, None)).error is ErrorCode.NOT_COORDINATOR


def test_3_3_empty_is_25() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert a.heartbeat(generation_id=2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_3_3_preparing_resets_the_timer_and_is_27() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    ctx.advance(5_000)
    assert (b.heartbeat().error, b.deadline) == (ErrorCode.REBALANCE_IN_PROGRESS, SESSION)


@pytest.mark.parametrize("state", [CR, STABLE])
def test_3_3_completing_and_stable_reset_the_timer_and_are_0(state: State) -> None:
    ctx = Context()
    _, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    ctx.advance(5_000)
    assert (b.heartbeat().error, b.deadline) == (ErrorCode.NONE, SESSION)


def test_3_3_a_pending_id_gets_25() -> None:
    ctx = Context()
    p = ctx.client("p")
    p.join()
    assert p.heartbeat(generation_id=0).error is ErrorCode.UNKNOWN_MEMBER_ID


# -- 3.4 LeaveGroup


@pytest.mark.parametrize("version", [0, 1, 2])
def test_3_4_before_v3_the_one_members_error_is_at_the_top(version: int) -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    assert ctx.leave(("stranger", None), version=version).reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.leave((a.member_id, None), version=version).reply.error_code == ErrorCode.NONE
    assert ctx.state is PR


@pytest.mark.parametrize("version", [3, 4, 5])
def test_3_4_an_unknown_group_is_25_for_every_member_and_0_at_the_top(version: int) -> None:
    call = Context().leave(("x", None), ("", "i"), version=version)
    assert call.reply.error_code == ErrorCode.NONE
    assert call.member_errors == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize("version", [0, 2])
def test_3_4_an_unknown_group_before_v3_is_25_at_the_top(version: int) -> None:
    assert Context().leave(("x", None), version=version).reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("loading", "error"), [(True, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (False, ErrorCode.NOT_COORDINATOR)]
)
def test_3_4_loading_and_not_coordinator_are_at_the_top(loading: bool, error: ErrorCode) -> None:
    ctx = Context()
    (ctx.load if loading else ctx.close)()
    reply = ctx.leave(("x", None)).reply
    assert (reply.error_code, reply.members) == (error, [])


def test_3_4_an_empty_group_id_is_24() -> None:
    assert Context().leave(("x", None), group="").reply.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("row", "entry", "error"),
    [
        ("mid '' and iid known", ("", "i"), ErrorCode.NONE),
        ("mid '' and iid unknown", ("", "unheard"), ErrorCode.UNKNOWN_MEMBER_ID),
        ("mid '' and no iid", ("", None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("mid pending", ("p", None), ErrorCode.NONE),
        ("iid unknown", ("a", "unheard"), ErrorCode.UNKNOWN_MEMBER_ID),
        ("iid of another", ("a", "i"), ErrorCode.FENCED_INSTANCE_ID),
        ("mid unknown", ("x", None), ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", ("a", None), ErrorCode.NONE),
        ("static member with its id", ("s", "i"), ErrorCode.NONE),
        ("static member without its instance", ("s", None), ErrorCode.NONE),
    ],
)
def test_3_4_each_kind_of_entry(row: str, entry: tuple[str, str | None], error: ErrorCode) -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    p = ctx.client("p")
    p.join()
    ids = {"a": a.member_id, "s": s.member_id, "p": p.member_id}
    sent = (ids.get(entry[0], entry[0]), entry[1])
    call = ctx.leave(sent)
    (echo,) = call.reply.members
    assert (echo.member_id, echo.group_instance_id, echo.error_code) == (*sent, error), row
    assert ctx.state is (PR if error is ErrorCode.NONE else STABLE)


def test_3_4_several_members_in_one_request() -> None:
    ctx = Context()
    a, b, s = ctx.stable("a", "b", ctx.client("s", instance="i"))
    call = ctx.leave((a.member_id, None), ("x", None), ("", "i"), ("", "i"))
    codes = [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert call.member_errors == codes
    assert list(ctx.group().members) == [b.member_id]
    departures = [(event.who.member_id, event.departure) for event in ctx.all_events(MemberLeft)]
    assert departures == [(a.member_id, Departure.LEFT), (s.member_id, Departure.REMOVED)]


def test_3_4_a_pending_id_is_dropped_with_its_timer() -> None:
    ctx = Context()
    p = ctx.client("p")
    p.join()
    p.leave()
    assert (ctx.group().pending_members, p.deadline) == (set(), None)


def test_3_4_a_parked_join_is_answered_25_with_an_empty_member_id() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    call = a.join()
    a.leave()
    assert (call.error, call.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_3_4_a_parked_sync_is_answered_25() -> None:
    """Kafka leaves it open; rule 7.6."""
    ctx = Context()
    _, b, _ = ctx.completing("a", "b", "c")
    call = b.sync()
    b.leave()
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_3_4_a_removed_member_has_no_timer() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    b.leave()
    assert (b.deadline, a.deadline) == (None, SESSION)


@pytest.mark.parametrize("state", [CR, STABLE])
def test_3_4_after_a_success_stable_and_completing_rebalance(state: State) -> None:
    ctx = Context()
    _, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    b.leave()
    assert ctx.state is PR


@pytest.mark.parametrize("state", [CR, STABLE])
def test_3_4_a_pending_id_that_leaves_counts_as_a_success(state: State) -> None:
    ctx = Context()
    (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    p = ctx.client("p")
    p.join()
    p.leave()
    assert ctx.state is PR


@pytest.mark.parametrize("state", [CR, STABLE])
def test_3_4_without_a_success_nothing_happens(state: State) -> None:
    ctx = Context()
    (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    ctx.leave(("x", None), ("", "unheard"))
    assert ctx.state is state


def test_3_4_in_preparing_the_join_is_completed() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    call = a.join()
    assert call.is_parked
    b.leave()
    assert call.reply.generation_id == 2


def test_3_4_in_the_initial_phase_a_leave_completes_nothing() -> None:
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    call = a.enter()
    b.enter()
    b.leave()
    assert call.is_parked
    ctx.advance(2 * DELAY)
    assert (call.reply.generation_id, len(call.reply.members)) == (1, 1)


def test_3_4_the_answer_waits_for_the_record_if_the_group_becomes_empty() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.hold_writes()
    call = a.leave()
    assert (call.is_parked, ctx.state) == (True, EMPTY)
    ctx.durable()
    assert call.member_errors == [ErrorCode.NONE]


def test_3_4_the_last_member_leaves_and_a_pending_id_remains() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    p = ctx.client("p")
    p.join()
    a.leave()
    ctx.advance(0)
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)
    p.join()
    ctx.advance(DELAY)
    assert p.generation_id == 3


# -- 3.5 precedence: covered by the orders above; here what they share


def test_3_5_location_comes_before_existence_for_every_request() -> None:
    ctx = Context()
    ctx.close()
    about = ("g", "x", 1, None)
    calls = [
        ctx.join("x"),
        ctx.sync(about, {}),
        ctx.heartbeat(about),
        ctx.leave(("x", None)),
        ctx.commit({0: 1}, about),
    ]
    assert [call.error for call in calls] == [ErrorCode.NOT_COORDINATOR] * 5
