"""What is not in Kafka and changes timing only: the early end of the initial delay, and debounce. Holds: test_3."""

from __future__ import annotations

import pytest

from equipoise.coordinator.states import State
from equipoise.wire.errors import ErrorCode
from tests.spec.context import DELAY, REBALANCE, Client, Context

EMPTY, PR, CR, STABLE, DEAD = State


# -- group.initial.rebalance.delay.early


def emptied(ctx: Context, *members: str | Client) -> list[Client]:
    """They were a group, and are gone all at once."""
    clients = ctx.stable(*members)
    ctx.leave(*((client.member_id, None) for client in clients))
    assert ctx.state is EMPTY
    return clients


def test_early_a_brand_new_group_waits_as_on_kafka() -> None:
    ctx = Context()
    call = ctx.client("a").enter()
    ctx.advance(DELAY - 1)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_early_a_group_that_only_has_offsets_waits_as_on_kafka() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    call = ctx.client("a").enter()
    ctx.advance(DELAY - 1)
    assert call.is_parked


def test_early_the_delay_ends_when_as_many_are_back_as_there_were() -> None:
    ctx = Context()
    emptied(ctx, "a", "b")
    first, second = ctx.client("x").enter(), ctx.client("y").enter()
    assert (first.reply.generation_id, second.reply.generation_id) == (3, 3)


def test_early_one_of_two_waits() -> None:
    ctx = Context()
    emptied(ctx, "a", "b")
    call = ctx.client("x").enter()
    ctx.advance(DELAY - 1)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 3


def test_early_what_counts_is_the_last_generation() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    b.leave()
    a.join()
    a.leave()
    assert ctx.client("x").enter().reply.generation_id == 4


def test_early_a_reserved_id_is_waited_for() -> None:
    ctx = Context()
    emptied(ctx, "a")
    p = ctx.client("p")
    p.join()
    call = ctx.client("x").enter()
    assert call.is_parked
    p.join()
    assert call.reply.generation_id == 3


def test_early_the_static_members_are_enough() -> None:
    ctx = Context()
    emptied(ctx, ctx.client("s", instance="i"), ctx.client("t", instance="j"), "a")
    one = ctx.client("s", instance="i").enter()
    assert one.is_parked
    two = ctx.client("t", instance="j").enter()
    assert (one.reply.generation_id, two.reply.generation_id) == (3, 3)


def test_early_a_static_member_more_does_not_hinder() -> None:
    ctx = Context()
    emptied(ctx, ctx.client("s", instance="i"), "a", "b", "c")
    ctx.client("n", instance="n").enter()
    assert ctx.client("s", instance="i").enter().reply.generation_id == 3


def test_early_a_restart_forgets_how_many_there_were_if_the_group_was_empty() -> None:
    ctx = Context()
    emptied(ctx, "a")
    ctx.reload()
    assert ctx.client("x").enter().is_parked


def test_early_a_group_loaded_with_members_remembers_them() -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.reload()
    ctx.leave(("a-1", None))
    assert ctx.client("x").enter().reply.generation_id == 3


def test_early_off_is_kafka() -> None:
    ctx = Context(group_initial_rebalance_delay_early=False)
    emptied(ctx, "a")
    call = ctx.client("x").enter()
    ctx.advance(DELAY - 1)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 3


# -- group.rebalance.debounce.ms


def test_debounce_is_off_by_default() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert a.join().reply.generation_id == 2


def test_debounce_a_rebalance_of_a_stable_group_takes_at_least_so_long() -> None:
    ctx = Context(group_rebalance_debounce_ms=100)
    a, b = ctx.stable("a", "b")
    calls = [a.join(), b.join()]
    ctx.advance(99)
    assert [call.is_parked for call in calls] == [True, True]
    ctx.advance(1)
    assert [call.reply.generation_id for call in calls] == [2, 2]


def test_debounce_a_burst_costs_one_rebalance() -> None:
    ctx = Context(group_rebalance_debounce_ms=100)
    (a,) = ctx.stable("a")
    newcomers = []
    for name in "bcd":
        newcomers.append(ctx.client(name).enter())
        a.join()
        ctx.advance(30)
    assert {call.is_parked for call in newcomers} == {True}
    ctx.advance(10)
    assert {call.reply.generation_id for call in newcomers} == {2}


def test_debounce_whoever_is_missing_then_is_waited_for() -> None:
    ctx = Context(group_rebalance_debounce_ms=100)
    a, b = ctx.stable("a", "b")
    call = a.join()
    ctx.advance(200)
    assert call.is_parked
    b.join()
    assert call.reply.generation_id == 2


def test_debounce_a_shorter_rebalance_timeout_ends_it() -> None:
    ctx = Context(group_rebalance_debounce_ms=100)
    (a,) = ctx.stable(ctx.client("a", rebalance=50))
    call = a.join()
    ctx.advance(50)
    assert call.reply.generation_id == 2


def test_debounce_does_not_apply_to_the_initial_delay() -> None:
    ctx = Context(group_rebalance_debounce_ms=10_000)
    call = ctx.client("a").enter()
    ctx.advance(DELAY)
    assert call.reply.generation_id == 1


def test_debounce_does_not_apply_when_completing_is_interrupted() -> None:
    ctx = Context(group_rebalance_debounce_ms=10_000)
    a, b = ctx.completing("a", "b")
    b.leave()
    assert a.join().reply.generation_id == 2


def test_debounce_a_group_that_loses_its_last_member_has_nobody_to_wait_for() -> None:
    """The rebalance timeout of no members is 0."""
    ctx = Context(group_rebalance_debounce_ms=100)
    (a,) = ctx.stable("a")
    call = a.leave()
    assert (ctx.state, call.member_errors) == (PR, [ErrorCode.NONE])
    ctx.advance(0)
    assert ctx.state is EMPTY


@pytest.mark.parametrize("debounce", [1, REBALANCE * 2])
def test_debounce_is_over_with_its_rebalance(debounce: int) -> None:
    ctx = Context(group_rebalance_debounce_ms=debounce)
    (a,) = ctx.stable("a")
    a.join()
    ctx.advance(REBALANCE)
    assert a.generation_id == 2
    assert ctx.group().not_before == 0
    assert ctx.shard.timers.deadline(("debounce", "g")) is None
