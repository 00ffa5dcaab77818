"""Timers of guests that were armed on the way to a change that could not be written. Rules A16.15 and A21.4."""

from __future__ import annotations

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.wire.errors import ErrorCode
from tests.consumer_guests.mixed import REBALANCE_TIMEOUT, Mixed
from tests.consumer_guests.test_a16_migration import members_of, mixed_group


@pytest.mark.parametrize("asked", ["heartbeat", "join"])
def test_the_timer_of_an_upgrade_that_was_undone_does_not_count_in_the_next(asked: str) -> None:
    """A guest of the next upgrade went a minute after it had been told to rejoin, or had joined, in the first."""
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    ctx.hold_writes()
    n = ctx.modern("n")
    n.join()
    since = ctx.now
    waiting = a.heartbeat() if asked == "heartbeat" else a.rejoin()
    ctx.fail_writes()
    assert waiting.error is not ErrorCode.NONE
    assert (ctx.state, a.heartbeat().error) == (State.STABLE, ErrorCode.NONE)
    ctx.holds_writes = False
    while ctx.now < since + REBALANCE_TIMEOUT - 5_000:
        ctx.advance(2_500)
        assert {a.heartbeat().error, b.heartbeat().error} == {ErrorCode.NONE}
    assert n.join().error is ErrorCode.NONE
    ctx.advance(6_000)
    assert set(members_of(ctx)) == {a.member_id, b.member_id, n.member_id}


def test_a_guest_that_was_told_of_a_change_that_was_undone_need_not_rejoin() -> None:
    """It went a minute later, though nobody had told it."""
    ctx, a, b, n = mixed_group()
    ctx.hold_writes()
    ctx.modern("m").join()
    since = ctx.now
    waiting = a.heartbeat()
    ctx.fail_writes()
    assert waiting.error is not ErrorCode.NONE
    ctx.holds_writes = False
    while ctx.now < since + REBALANCE_TIMEOUT + 5_000:
        ctx.advance(2_500)
        assert {a.heartbeat().error, b.heartbeat().error} == {ErrorCode.NONE}
        n.live()
    assert set(members_of(ctx)) == {a.member_id, b.member_id, n.member_id}
