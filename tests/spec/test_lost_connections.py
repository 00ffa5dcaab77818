"""Additions: the initial delay ends when it is quiet; a member that lost its connection and does not come back goes."""

from __future__ import annotations

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import MemberLeft, StateChanged
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.wire.errors import ErrorCode
from tests.spec.context import DELAY, Client, Context

EMPTY, PR, CR, STABLE, DEAD = State
QUIET = 250
GRACE = 2_000
INTERVAL = 3_000
SESSION = 45_000
RECONNECT = 500


# -- group.initial.rebalance.delay.quiet.ms


def test_quiet_the_initial_delay_ends_when_nobody_new_comes() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    call = ctx.client("a").enter()
    ctx.advance(QUIET - 1)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_quiet_every_new_member_begins_it_anew() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    first = ctx.client("a").enter()
    ctx.advance(QUIET - 1)
    second = ctx.client("b").enter()
    ctx.advance(QUIET - 1)
    assert first.is_parked
    ctx.advance(1)
    assert (first.reply.generation_id, second.reply.generation_id) == (1, 1)
    assert len(ctx.group().members) == 2


def test_quiet_a_member_id_that_was_given_out_is_waited_for() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    a, b = ctx.client("a"), ctx.client("b")
    call = a.enter()
    b.join()
    ctx.advance(QUIET + 1)
    assert call.is_parked
    b.join()
    ctx.advance(QUIET)
    assert call.reply.generation_id == 1


def test_quiet_a_member_id_that_never_comes_costs_the_delay_of_kafka() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    call = ctx.client("a").enter()
    ctx.client("b").join()
    ctx.advance(DELAY - 1)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_quiet_a_shorter_delay_ends_first() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET, group_initial_rebalance_delay_ms=100)
    call = ctx.client("a").enter()
    ctx.advance(100)
    assert call.reply.generation_id == 1


def test_quiet_a_later_rebalance_has_no_such_wait() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    a = ctx.client("a")
    a.enter()
    ctx.advance(QUIET)
    a.sync({})
    b = ctx.client("b").enter()
    ctx.advance(QUIET)
    assert (ctx.state, b.is_parked) == (PR, True)


def test_quiet_all_who_came_are_gone_again() -> None:
    ctx = Context(group_initial_rebalance_delay_quiet_ms=QUIET)
    a = ctx.client("a")
    a.enter()
    a.leave()
    ctx.advance(QUIET)
    assert ctx.state is EMPTY


# -- group.lost.connection.grace.ms


def lossy(**config: int) -> Context:
    return Context(**{"group_lost_connection_grace_ms": GRACE, **config})


def members(ctx: Context, *names: str, instance: str | None = None) -> list[Client]:
    """A Stable group with the usual session, whose members have shown their heartbeat interval."""
    clients = [ctx.client(name, session=SESSION) for name in names]
    if instance is not None:
        clients.append(ctx.client("s", session=SESSION, instance=instance))
    clients = ctx.stable(*clients)
    ctx.advance(INTERVAL)
    beat(*clients)
    return clients


def beat(*clients: Client) -> None:
    for one in clients:
        assert one.heartbeat().reply.error_code == ErrorCode.NONE


def lose(ctx: Context, *clients: Client) -> None:
    for one in clients:
        ctx.run(ctx.shard.connection_lost("g", one.member_id, ctx.now))


def test_7_9_a_member_that_does_not_come_back_goes_when_its_heartbeat_is_overdue() -> None:
    ctx = lossy()
    a, b, c = members(ctx, "a", "b", "c")
    who = b.member.who
    lose(ctx, b)
    ctx.advance(INTERVAL + RECONNECT - 1)
    assert ctx.state is STABLE
    ctx.advance(1)
    silent = INTERVAL + RECONNECT
    assert ctx.last_event(MemberLeft) == MemberLeft(
        "g", ctx.now, who, Departure.CONNECTION_LOST, silent_ms=silent, limit_ms=GRACE
    )
    assert ctx.last_event(StateChanged).cause == Cause(Trigger.CONNECTION_LOST, who, silent_ms=silent, limit_ms=GRACE)
    assert ctx.state is PR
    assert sorted(ctx.group().members) == sorted([a.member_id, c.member_id])


def test_7_9_the_grace_counts_from_the_loss() -> None:
    ctx = lossy()
    _, b, _ = members(ctx, "a", "b", "c")
    ctx.advance(INTERVAL - 100)
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    assert ctx.state is STABLE
    ctx.advance(1)
    assert ctx.state is PR


@pytest.mark.parametrize("request_name", ["heartbeat", "join", "sync", "commit"])
def test_7_9_any_request_of_the_member_ends_the_matter(request_name: str) -> None:
    ctx = lossy()
    a, b, c = members(ctx, "a", "b", "c")
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    getattr(b, request_name)()
    beat(a, c)
    ctx.advance(2 * (INTERVAL + RECONNECT))
    assert b.member_id in ctx.group().members


def test_7_9_a_second_loss_counts_anew() -> None:
    ctx = lossy()
    _, b, _ = members(ctx, "a", "b", "c")
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    beat(b)
    lose(ctx, b)
    ctx.advance(INTERVAL + RECONNECT - 1)
    assert ctx.state is STABLE
    ctx.advance(1)
    assert ctx.state is PR


def test_7_9_silence_alone_is_not_enough() -> None:
    ctx = lossy()
    members(ctx, "a", "b", "c")
    ctx.advance(SESSION - 1)
    assert ctx.state is STABLE


def test_7_9_a_member_of_a_longer_interval_is_given_its_time() -> None:
    ctx = lossy()
    a, b, c = members(ctx, "a", "b", "c")
    ctx.advance(10_000)
    beat(a, b, c)
    lose(ctx, b)
    ctx.advance(10_000 + RECONNECT - 1)
    assert ctx.state is STABLE
    ctx.advance(1)
    assert ctx.state is PR


def test_7_9_a_member_that_was_never_silent_has_a_third_of_its_session() -> None:
    ctx = lossy()
    clients = ctx.stable(*[ctx.client(name, session=SESSION) for name in ("a", "b", "c")])
    lose(ctx, clients[1])
    ctx.advance(SESSION // 3 + RECONNECT - 1)
    assert ctx.state is STABLE
    ctx.advance(1)
    assert ctx.state is PR


def test_7_9_static_members_have_their_session() -> None:
    ctx = lossy()
    a, b, s = members(ctx, "a", "b", instance="i")
    lose(ctx, s)
    ctx.advance(SESSION - 1_000)
    beat(a, b)
    assert s.member_id in ctx.group().members


def test_7_9_zero_is_kafka() -> None:
    ctx = lossy(group_lost_connection_grace_ms=0)
    _, b, _ = members(ctx, "a", "b", "c")
    lose(ctx, b)
    ctx.advance(SESSION - 1)
    assert ctx.state is STABLE


def test_7_9_a_stranger_and_an_unknown_group_do_not_matter() -> None:
    ctx = lossy()
    ctx.run(ctx.shard.connection_lost("g", "a", ctx.now))
    members(ctx, "a", "b")
    ctx.run(ctx.shard.connection_lost("g", "nobody", ctx.now))
    assert ctx.state is STABLE


def test_7_9_a_loss_in_the_join_phase_ends_the_wait_for_it() -> None:
    ctx = lossy()
    a, b, c = members(ctx, "a", "b", "c")
    ctx.advance(INTERVAL)
    calls = [a.join(), c.join()]
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    assert all(call.is_parked for call in calls)
    ctx.advance(1)
    assert [call.reply.generation_id for call in calls] == [2, 2]


def test_7_9_a_process_that_died_with_its_join_parked_gets_no_partitions_for_long() -> None:
    """Its answer goes nowhere. That it was answered is no sign of life."""
    ctx = lossy()
    a, b, c = members(ctx, "a", "b", "c")
    a.join()
    b.join()
    lose(ctx, b)
    c.join()
    assert ctx.state is CR
    a.sync({})
    c.sync({})
    ctx.advance(SESSION // 3 + RECONNECT)
    assert b.member_id not in ctx.group().members


@pytest.mark.parametrize("apart", [0, 400])
def test_7_9_1_most_of_the_group_at_once_is_no_crash(apart: int) -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c")
    for one in clients[:2]:
        lose(ctx, one)
        ctx.advance(apart)
    ctx.advance(SESSION - 2 * apart - 1)
    assert ctx.state is STABLE
    assert len(ctx.group().members) == 3


def test_7_9_1_whoever_follows_within_the_second_is_spared_too() -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c", "d")
    lose(ctx, *clients[:3])
    beat(clients[0])
    ctx.advance(500)
    lose(ctx, clients[3])
    ctx.advance(SESSION - 501)
    assert len(ctx.group().members) == 4


def test_7_9_1_half_of_the_group_may_go() -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c", "d")
    lose(ctx, *clients[:2])
    ctx.advance(INTERVAL + RECONNECT)
    assert sorted(ctx.group().members) == sorted(one.member_id for one in clients[2:])


def test_7_9_1_losses_further_apart_are_crashes() -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c")
    lose(ctx, clients[0])
    ctx.advance(1_000)
    lose(ctx, clients[1])
    ctx.advance(INTERVAL + RECONNECT)
    assert list(ctx.group().members) == [clients[2].member_id]


def test_7_9_1_the_broker_may_say_that_many_were_lost() -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c", "d")
    lose(ctx, clients[0])
    ctx.advance(100)
    ctx.run(ctx.shard.spare_lost(ctx.now - 1_000, ctx.now))
    ctx.advance(SESSION - 101)
    assert len(ctx.group().members) == 4


def test_7_9_1_an_older_loss_is_not_spared() -> None:
    ctx = lossy()
    clients = members(ctx, "a", "b", "c", "d")
    lose(ctx, clients[0])
    ctx.advance(1_001)
    ctx.run(ctx.shard.spare_lost(ctx.now - 1_000, ctx.now))
    ctx.advance(INTERVAL)
    assert len(ctx.group().members) == 3


def test_7_9_2_the_only_member_stays_until_somebody_waits_for_it() -> None:
    ctx = lossy()
    (a,) = members(ctx, "a")
    lose(ctx, a)
    ctx.advance(20_000)
    assert ctx.state is STABLE
    call = ctx.client("n", session=SESSION).enter()
    ctx.advance(0)
    assert call.reply.generation_id == 2
    assert ctx.last_event(MemberLeft).departure is Departure.CONNECTION_LOST


def test_7_9_2_a_newcomer_within_the_grace_waits_for_the_rest_of_it() -> None:
    ctx = lossy()
    (a,) = members(ctx, "a")
    lose(ctx, a)
    ctx.advance(1_000)
    call = ctx.client("n", session=SESSION).enter()
    ctx.advance(INTERVAL + RECONNECT - 1_001)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 2


def test_7_9_a_restart_of_the_coordinator_knows_of_no_losses() -> None:
    ctx = lossy()
    _, b, _ = members(ctx, "a", "b", "c")
    lose(ctx, b)
    ctx.restart()
    ctx.advance(SESSION - 1)
    assert len(ctx.group().members) == 3
