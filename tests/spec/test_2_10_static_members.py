"""Rule 2.10: static members."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    SESSION,
    Client,
    Context,
    assignment,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))
RANGE_STICKY = protocols("range", "sticky")


def replaced(ctx: Context, *, version: int = 9, leader: bool = False) -> tuple[Client, Client, Any]:
    """The members a and s, and the answer to s coming back in Stable."""
    a, s = ctx.client("a"), ctx.client("s", instance="i")
    ctx.stable(*((s, a) if leader else (a, s)))
    return a, s, s.restart(version=version).reply


def test_2_10_the_new_incarnation_inherits_and_the_old_one_is_fenced() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    old = s.member_id
    s.restart(client_id="another")
    assert s.member.client_id == "s"
    assert (s.member_id, s.member.assignment, s.member.is_new) == ("i-3", assignment(1), False)
    assert ctx.heartbeat(("g", old, 1, "i")).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.sync(("g", old, 1, "i"), {}).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.join(old, instance="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.commit({0: 1}, ("g", old, 1, "i")).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.leave((old, "i")).member_errors == [ErrorCode.FENCED_INSTANCE_ID]
    assert ctx.heartbeat(("g", old, 1, None)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_10_a_parked_join_of_the_old_incarnation_is_answered_82() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    a.commit()
    parked, old = s.join(offered=OTHER), s.member_id
    assert parked.is_parked
    s.restart()
    assert (parked.error, parked.reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    assert ctx.group().joined == 1


def test_2_10_a_parked_sync_of_the_old_incarnation_is_answered_82() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    parked = s.sync()
    s.restart()
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID


def test_2_10_the_session_timer_has_the_old_value_until_it_is_armed_again() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.advance(4_000)
    s.restart(session=30_000, rebalance=5_000)
    assert (s.deadline, s.member.session_timeout_ms, s.member.rebalance_timeout_ms) == (SESSION, 30_000, 5_000)
    s.heartbeat()
    assert s.deadline == 30_000


def test_2_10_the_timer_of_the_old_id_has_no_effect() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.advance(9_000)
    a.heartbeat()
    s.restart()
    ctx.advance(9_000)
    assert ctx.state is STABLE


def test_2_10_a_replaced_member_does_not_expire_while_it_is_parked_even_if_it_was_new() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=60_000)
    s = ctx.client("s", instance="i")
    s.enter()
    ctx.advance(1_000)
    call = s.restart()
    ctx.advance(SESSION + 1)
    assert call.is_parked
    ctx.advance(60_000)
    assert call.reply.generation_id == 1


def test_2_10_in_preparing_the_replacement_just_tries_to_complete() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    call = a.join()
    assert call.is_parked
    assert s.restart().reply.generation_id == 2
    assert [row.member_id for row in call.reply.members] == [a.member_id, "i-3"]


def test_2_10_in_completing_the_replacement_always_rebalances() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    assert s.restart().is_parked
    assert ctx.state is PR


def test_2_10_in_stable_with_the_same_selected_protocol_nothing_is_rebalanced() -> None:
    """Even though the subscription may have changed: only the name of the protocol is compared, and what the group
    is subscribed to is looked at in the next join phase."""
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    reply = s.restart(offered=OTHER).reply
    assert (ctx.state, reply.generation_id) == (STABLE, 1)
    assert ctx.group().subscribed_topics == {"t"}


def test_2_10_in_stable_with_another_selected_protocol_it_is() -> None:
    ctx = Context()
    both = protocols("range", "sticky")
    _, s = ctx.stable(ctx.client("a", offered=both), ctx.client("s", instance="i", offered=both))
    assert s.restart(offered=protocols("sticky")).is_parked
    assert ctx.state is PR


def test_2_10_v9_leader_gets_the_members_and_skip_assignment() -> None:
    a, s, reply = replaced(ctx := Context(), leader=True)
    assert (reply.leader, reply.skip_assignment, reply.generation_id) == (s.member_id, True, 1)
    assert [row.member_id for row in reply.members] == [s.member_id, a.member_id]
    assert ctx.group().leader == s.member_id


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_2_10_before_v9_the_leader_is_told_the_old_leaders_id(version: int) -> None:
    _, s, reply = replaced(Context(), version=version, leader=True)
    assert (reply.leader, reply.members, reply.skip_assignment) == ("i-1", [], False)
    assert (reply.member_id, reply.generation_id) == (s.member_id, 1)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_2_10_a_follower_is_told_the_leader(version: int) -> None:
    a, s, reply = replaced(Context(), version=version)
    assert (reply.leader, reply.members, reply.skip_assignment) == (a.member_id, [], False)
    assert (reply.member_id, reply.generation_id) == (s.member_id, 1)


def test_2_10_the_answer_waits_for_the_write_of_the_new_id() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    assert call.is_parked
    ctx.durable()
    assert call.error is ErrorCode.NONE
    value: Any = ctx.records[-1].value
    assert [(row.member_id, row.assignment) for row in value.members] == [
        ("a-1", assignment(0)),
        (s.member_id, assignment(1)),
    ]
    ctx.restart()
    assert s.heartbeat().error is ErrorCode.NONE


def test_2_10_if_the_write_fails_the_old_id_is_back_with_all_it_had() -> None:
    ctx = Context()
    s, a = ctx.stable(ctx.client("s", instance="i"), "a")
    old = s.member_id
    ctx.hold_writes()
    ctx.advance(4_000)
    call = s.restart(offered=OTHER, session=30_000)
    ctx.fail_writes()
    assert (call.error, call.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    group = ctx.group()
    assert (group.state, group.leader, group.static_members) == (STABLE, old, {"i": old})
    member = group.members[old]
    assert (member.session_timeout_ms, member.protocols) == (SESSION, protocols("range"))
    assert (s.deadline, group.subscribed_topics) == (SESSION, {"t"})
    assert s.heartbeat().error is ErrorCode.NONE
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)  # and it expires as any other
    assert old not in group.members


def test_2_10_if_the_write_fails_nothing_stays_parked_under_the_new_id() -> None:
    """Not even a heartbeat of a client that has guessed its id."""
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    old = s.member_id
    ctx.hold_writes()
    s.restart()
    (guessed,) = ctx.group().parked.joins
    heartbeat = s.heartbeat(member_id=guessed, hold_ms=2_000)
    assert heartbeat.is_parked
    ctx.fail_writes()
    assert heartbeat.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ctx.group().static_members == {"i": old}
    assert not ctx.group().parked.heartbeats


def test_2_10_a_second_replacement_fences_the_first_which_waits_for_its_write() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    first, second = s.restart(), s.restart()
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    ctx.durable()
    assert (second.reply.member_id, ctx.group().static_members) == ("i-4", {"i": "i-4"})


@pytest.mark.parametrize("fails", [False, True])
def test_2_10_a_rebalance_before_the_write_is_done_takes_the_member_along(fails: bool) -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    a.join()
    assert (ctx.state, call.reply.generation_id) == (CR, 2)
    (ctx.fail_writes if fails else ctx.durable)()
    assert s.heartbeat().error is ErrorCode.NONE


@pytest.mark.parametrize("fails", [False, True])
def test_2_10_a_rebalance_that_is_not_over_when_the_write_is_done_takes_the_member_along_too(fails: bool) -> None:
    ctx = Context()
    a, b, s = ctx.stable("a", "b", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    a.join()
    (ctx.fail_writes if fails else ctx.durable)()
    assert (ctx.state, call.is_parked) == (PR, True)
    b.join()
    assert (call.reply.generation_id, s.member_id) == (2, "i-4")


@pytest.mark.parametrize("fails", [False, True])
def test_2_10_a_member_removed_before_the_write_is_done_stays_removed(fails: bool) -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    ctx.leave(("", "i"))
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    (ctx.fail_writes if fails else ctx.durable)()
    assert ctx.group().static_members == {}


def test_2_10_a_member_that_waits_longer_than_its_session_for_the_write_has_a_session_afterwards() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    for _ in range(3):
        ctx.advance(5_000)
        a.heartbeat()
    assert call.is_parked
    ctx.durable()
    assert (call.error, s.deadline) == (ErrorCode.NONE, SESSION)


@pytest.mark.parametrize("how", ["session timeout", "pending-sync expiry", "administrative leave"])
def test_2_10_static_members_go_by(how: str) -> None:
    ctx = Context()
    a, s = ctx.completing("a", ctx.client("s", instance="i", session=100_000 if how.startswith("pending") else SESSION))
    a.sync()
    if how == "administrative leave":
        ctx.leave(("", "i"))
    for _ in range(12 if how.startswith("pending") else 2):
        a.heartbeat()
        ctx.advance(5_000)
    assert "i" not in ctx.group().static_members
    assert s.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
