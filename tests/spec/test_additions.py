"""What is not in Kafka and changes timing only: early end of the initial delay, debounce, heartbeats."""

from __future__ import annotations

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.spec.context import DELAY, REBALANCE, SESSION, Client, Context
from tests.spec.scene import Scene

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
    ctx.restart()
    assert ctx.client("x").enter().is_parked


def test_early_a_group_loaded_with_members_remembers_them() -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.restart()
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
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.DEBOUNCE, "g")) is None


# -- group.heartbeat.hold.max.ms: what the core does with a heartbeat that may be held


def test_held_a_heartbeat_in_stable_waits_and_its_limit_answers_it_with_0() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    call = a.heartbeat(hold_ms=2_700)
    assert (call.is_parked, a.deadline) == (True, SESSION)
    ctx.advance(2_699)
    assert call.is_parked
    ctx.advance(1)
    assert call.error is ErrorCode.NONE


def test_held_never_longer_than_a_third_of_the_session() -> None:
    ctx = Context()
    (a,) = ctx.stable(ctx.client("a", session=6_000))
    call = a.heartbeat(hold_ms=5_000)
    ctx.advance(2_000)
    assert call.error is ErrorCode.NONE


@pytest.mark.parametrize("state", [PR, CR])
def test_held_only_in_stable(state: State) -> None:
    ctx = Context()
    a, b = (ctx.completing if state is CR else ctx.stable)("a", "b")
    if state is PR:
        a.join()
    assert not b.heartbeat(hold_ms=2_700).is_parked


def test_held_only_what_would_be_answered_with_0() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert a.heartbeat(hold_ms=2_700, generation_id=7).error is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("how", ["join", "leave", "expiry", "leader rejoins"])
def test_held_a_rebalance_releases_all_with_27_at_once(how: str) -> None:
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    ctx.advance(8_000)
    held = [one.heartbeat(hold_ms=3_000) for one in ((b,) if how == "leader rejoins" else (a, b))]
    if how == "join":
        ctx.client("d").enter()
    elif how == "leave":
        c.leave()
    elif how == "expiry":
        ctx.advance(2_000)
    else:
        a.join()
    assert {call.error for call in held} == {ErrorCode.REBALANCE_IN_PROGRESS}


def test_held_a_reserved_id_is_no_rebalance_and_releases_nothing() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    call = a.heartbeat(hold_ms=2_700)
    ctx.client("b").join()
    assert call.is_parked


@pytest.mark.parametrize("what", ["heartbeat", "sync", "join with the same protocols"])
def test_held_another_request_of_the_member_releases_with_0(what: str) -> None:
    ctx = Context()
    _, b = ctx.stable("a", "b")
    call = b.heartbeat(hold_ms=2_700)
    second = {
        "heartbeat": lambda: b.heartbeat(hold_ms=2_700),
        "sync": lambda: b.sync(),
        "join with the same protocols": lambda: b.join(),
    }[what]()
    assert call.error is ErrorCode.NONE
    assert second.is_parked == (what == "heartbeat")


def test_held_a_commit_lets_it_wait() -> None:
    """It came on another connection: the broker releases what is held on the same one."""
    ctx = Context()
    _, b = ctx.stable("a", "b")
    call = b.heartbeat(hold_ms=2_700)
    assert not b.commit().is_parked
    assert call.is_parked


def test_held_the_next_heartbeat_has_its_own_limit() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    first = a.heartbeat(hold_ms=2_700)
    ctx.advance(2_000)
    second = a.heartbeat(hold_ms=2_700)
    assert not first.is_parked
    ctx.advance(2_699)
    assert second.is_parked
    ctx.advance(1)
    assert not second.is_parked


def test_held_a_request_of_another_member_releases_nothing() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    call = a.heartbeat(hold_ms=2_700)
    b.commit()
    b.heartbeat()
    assert call.is_parked


def test_held_its_own_leave_releases_it_with_25() -> None:
    ctx = Context()
    _, b = ctx.stable("a", "b")
    call = b.heartbeat(hold_ms=2_700)
    b.leave()
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_held_its_own_rejoin_releases_it_with_27() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    call = a.heartbeat(hold_ms=2_700)
    a.join()
    assert call.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_held_a_new_incarnation_releases_it_with_82() -> None:
    ctx = Context()
    (s,) = ctx.stable(ctx.client("s", instance="i"))
    call = s.heartbeat(hold_ms=2_700)
    s.restart()
    assert call.error is ErrorCode.FENCED_INSTANCE_ID


def test_held_the_broker_can_release_it_with_0() -> None:
    """Something else has arrived on the connection."""
    ctx = Context()
    (a,) = ctx.stable("a")
    call = a.heartbeat(hold_ms=2_700)
    ctx.run(ctx.shard.release_heartbeat("g", a.member_id, ctx.now))
    assert call.error is ErrorCode.NONE
    for group_id, member_id in [("g", a.member_id), ("g", "stranger"), ("other", a.member_id)]:
        ctx.run(ctx.shard.release_heartbeat(group_id, member_id, ctx.now))  # nothing is held there


def test_held_an_unload_releases_it_with_16() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    call = a.heartbeat(hold_ms=2_700)
    ctx.close()
    assert call.error is ErrorCode.NOT_COORDINATOR


def test_held_the_session_is_counted_from_the_heartbeats_arrival() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.advance(1_000)
    call = a.heartbeat(hold_ms=3_000)
    for _ in range(2):
        ctx.advance(4_999)
        b.heartbeat()
    assert (ctx.state, call.error) == (STABLE, ErrorCode.NONE)
    ctx.advance(2)
    assert ctx.state is PR


# -- the short way of a heartbeat that is not held


@pytest.mark.parametrize("state", [None, EMPTY, PR, CR, STABLE, DEAD])
@pytest.mark.parametrize(
    ("about", "takes"),
    [
        (("b", 1, None), True),
        (("s", 1, "i"), True),
        (("s", 1, None), False),  # a static member may leave its instance out; that is for the long way
        (("b", 0, None), False),
        (("b", 2, None), False),
        (("stranger", 1, None), False),
        (("b", 1, "i"), False),
        (("b", 1, "unheard"), False),
    ],
)
def test_short_way_takes_only_what_the_long_way_answers_with_0(
    state: State | None, about: tuple[str, int, str | None], takes: bool
) -> None:
    ctx = Context()
    scene = Scene(ctx, state)
    ids = {"b": scene.b.member_id, "s": scene.s.member_id}
    request = HeartbeatRequest(
        group_id="g", member_id=ids.get(about[0], about[0]), generation_id=about[1], group_instance_id=about[2]
    )
    ctx.advance(1_000)
    assert ctx.shard.is_well(request, ctx.now) == (takes and state is STABLE)
    if state is STABLE:
        spoken = {"b": scene.b, "s": scene.s}.get(about[0], scene.b)
        assert spoken.deadline == (SESSION if takes else SESSION - 1_000)


def test_short_way_leaves_a_member_whose_heartbeat_is_held_to_the_long_way() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    held = a.heartbeat(hold_ms=2_000)
    request = HeartbeatRequest(group_id="g", member_id=a.member_id, generation_id=1)
    assert not ctx.shard.is_well(request, ctx.now)
    assert held.is_parked


def test_short_way_is_closed_while_loading() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.shard.status = Status.LOADING
    assert not ctx.shard.is_well(HeartbeatRequest(group_id="g", member_id=a.member_id, generation_id=1), ctx.now)


# -- the last commit of a member that has rejoined because its heartbeat was held, and is closed before its assignment


@pytest.mark.parametrize(
    ("hold", "members", "error"),
    [
        (5_000, "a", ErrorCode.NONE),
        (5_000, "ab", ErrorCode.REBALANCE_IN_PROGRESS),
        (0, "a", ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_held_the_only_member_may_commit_before_it_has_its_assignment(
    hold: int, members: str, error: ErrorCode
) -> None:
    ctx = Context(group_heartbeat_hold_max_ms=hold)
    *stay, leaver = ctx.stable(*members, "z")
    leaver.leave()
    for one in stay:
        one.join()
    assert ctx.group().state is CR
    assert stay[0].commit({0: 7}).error is error
    assert ctx.fetch_offset() == (7 if error is ErrorCode.NONE else -1)


@pytest.mark.parametrize(
    ("generation_id", "error"),
    [(2, ErrorCode.NONE), (1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION), (3, ErrorCode.ILLEGAL_GENERATION)],
)
def test_held_its_commit_may_be_of_the_generation_before(generation_id: int, error: ErrorCode) -> None:
    """librdkafka sends it behind its JoinGroup, before that is answered."""
    ctx = Context(group_heartbeat_hold_max_ms=5_000)
    a, leaver = ctx.stable("a", "z")
    leaver.leave()
    a.join()
    assert (ctx.group().state, ctx.group().generation_id) == (CR, 2)
    assert ctx.commit({0: 7}, ("g", a.member_id, generation_id, None)).error is error


def test_held_a_stranger_may_not_commit_in_its_place() -> None:
    ctx = Context(group_heartbeat_hold_max_ms=5_000)
    ctx.completing("a")
    assert ctx.commit({0: 7}, ("g", "nobody", 1, None)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.commit({0: 7}, ("g", "", -1, None)).error is ErrorCode.UNKNOWN_MEMBER_ID
