"""Rules of part 1: states, transitions, what Describe and List say. The table of requests by states has a file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.events import StateChanged
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.errors import ErrorCode, IllegalTransition
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    START,
    TOPIC,
    Client,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)
from tests.spec.scene import Scene

EMPTY, PR, CR, STABLE, DEAD = State


def test_1_1_the_states_have_the_names_of_the_wire() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in State] == names


# -- 1.2 transitions


LEGAL = {
    (EMPTY, PR),
    (STABLE, PR),
    (CR, PR),
    (PR, CR),
    (PR, EMPTY),
    (CR, STABLE),
    (EMPTY, DEAD),
    (PR, DEAD),
    (CR, DEAD),
    (STABLE, DEAD),
    (DEAD, DEAD),
}


@pytest.mark.parametrize("target", State)
@pytest.mark.parametrize("origin", State)
def test_1_2_a_transition_is_in_the_table_or_a_bug(origin: State, target: State) -> None:
    group = Context().shard.create_group("g", START)
    group.state = origin
    assert ((origin, target) in TRANSITIONS) == ((origin, target) in LEGAL)
    if (origin, target) in LEGAL:
        group.transition(target, WallTime(START + 5))
        assert (group.state, group.previous_state, group.state_since) == (target, origin, START + 5)
    else:
        with pytest.raises(IllegalTransition):
            group.transition(target, WallTime(START))


def test_1_2_none_to_empty_by_a_join_with_an_empty_member_id() -> None:
    ctx = Context()
    ctx.join()
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 0)


def test_1_2_none_to_empty_by_a_commit_without_generation() -> None:
    ctx = Context()
    ctx.commit({0: 5})
    assert (ctx.state, ctx.group().protocol_type) == (EMPTY, None)


def test_1_2_none_to_empty_by_replay_of_an_offset() -> None:
    ctx = Context()
    ctx.commit({0: 5})
    assert len(ctx.records) == 1
    ctx.restart()
    assert ctx.state is EMPTY


def test_1_2_none_to_empty_by_replay_of_group_metadata_without_members() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.restart()
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)


def test_1_2_none_to_stable_by_replay_of_group_metadata_with_members() -> None:
    ctx = Context()
    ctx.stable("a", "b")
    ctx.restart()
    assert (ctx.state, ctx.group().generation_id) == (STABLE, 1)


def test_1_2_empty_to_preparing_by_the_first_member() -> None:
    ctx = Context()
    ctx.client("a").enter()
    assert ctx.state is PR
    assert ctx.last_event(StateChanged).cause == Cause(Trigger.MEMBER_JOINED, ctx.group().members["a-1"].who)


Change = Callable[[Context, Client, Client], object]


def silence(ctx: Context, but: Client) -> None:
    ctx.advance(SESSION - 1)
    but.heartbeat()
    ctx.advance(1)


BEGINNERS: dict[str, tuple[Change, Trigger]] = {
    "new member": (lambda ctx, a, b: ctx.client("c").enter(), Trigger.MEMBER_JOINED),
    "member leaves": (lambda ctx, a, b: b.leave(), Trigger.MEMBER_LEFT),
    "member changes its protocols": (
        lambda ctx, a, b: b.join(offered=protocols("range", metadata=subscription("t", "u"))),
        Trigger.SUBSCRIPTION_CHANGED,
    ),
    "member is silent for its session timeout": (
        lambda ctx, a, b: silence(ctx, but=a),
        Trigger.SESSION_EXPIRED,
    ),
    "administrator removes a member": (lambda ctx, a, b: ctx.leave(("", "i")), Trigger.MEMBER_REMOVED),
}


@pytest.mark.parametrize("state", [STABLE, CR])
@pytest.mark.parametrize("what", BEGINNERS)
def test_1_2_stable_or_completing_to_preparing(what: str, state: State) -> None:
    change, trigger = BEGINNERS[what]
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b", instance="i")
    (ctx.stable if state is STABLE else ctx.completing)(a, b)
    change(ctx, a, b)
    assert ctx.state is PR
    event = ctx.last_event(StateChanged)
    assert (event.origin, event.target, event.cause and event.cause.trigger) == (state, PR, trigger)


def test_1_2_stable_to_preparing_by_a_rejoin_of_the_leader() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    a.join()
    assert ctx.last_event(StateChanged).cause == Cause(Trigger.LEADER_REJOINED, a.member.who)


def test_1_2_stable_to_preparing_when_a_replaced_static_member_changes_the_selected_protocol() -> None:
    ctx = Context()
    (s,) = ctx.stable(ctx.client("s", instance="i", offered=protocols("range", "sticky")))
    call = s.restart(offered=protocols("sticky", "range"))
    assert ctx.all_events(StateChanged)[-2].cause == Cause(Trigger.STATIC_MEMBER_REPLACED, s.member.who)
    assert (call.reply.protocol_name, call.reply.generation_id) == ("sticky", 2)  # alone, so it is complete at once


def test_1_2_completing_to_preparing_by_any_replacement_of_a_static_member() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    assert s.restart().is_parked
    assert ctx.state is PR
    assert ctx.last_event(StateChanged).cause == Cause(Trigger.STATIC_MEMBER_REPLACED, ctx.group().members["i-3"].who)


@pytest.mark.parametrize("state", [STABLE, CR])
def test_1_2_to_preparing_when_pending_syncs_expire(state: State) -> None:
    ctx = Context()
    a, b, c = ctx.completing("a", "b", "c")
    if state is STABLE:
        b.sync()
        a.sync()
    for _ in range(REBALANCE // 5_000):
        assert ctx.state is state
        ctx.advance(5_000)
        for client in (a, b, c):
            client.heartbeat()
    event = next(event for event in reversed(ctx.all_events(StateChanged)) if event.target is PR)
    assert event.cause is not None
    assert (event.origin, event.cause.trigger) == (state, Trigger.SYNC_EXPIRED)


def test_1_2_stable_to_preparing_after_a_load_with_too_many_members() -> None:
    ctx = Context()
    ctx.stable("a", "b")
    ctx.config = Context(group_max_size=1).config
    ctx.restart()
    assert ctx.state is PR
    event = ctx.last_event(StateChanged)
    assert event.cause is not None
    assert (event.origin, event.cause.trigger) == (STABLE, Trigger.SIZE_LIMIT)


def test_1_2_completing_to_preparing_when_the_assignment_cannot_be_written() -> None:
    ctx = Context()
    (a,) = ctx.completing("a")
    ctx.hold_writes()
    call = a.sync({a: assignment(0)})
    ctx.fail_writes()
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ctx.state is PR
    assert ctx.last_event(StateChanged).cause == Cause(Trigger.ASSIGNMENT_NOT_WRITTEN)


def test_1_2_preparing_to_completing_with_members_and_to_empty_without() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.enter()
    ctx.advance(DELAY)
    assert (ctx.state, ctx.group().generation_id) == (CR, 1)
    a.leave()
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)
    assert ctx.records[-1].value.members == []  # type: ignore[union-attr]


def test_1_2_completing_to_stable_only_when_the_record_is_committed() -> None:
    ctx = Context()
    (a,) = ctx.completing("a")
    ctx.hold_writes()
    call = a.sync({a: assignment(0)})
    assert (ctx.state, call.is_parked) == (CR, True)
    ctx.durable()
    assert (ctx.state, call.error) == (STABLE, ErrorCode.NONE)


def test_1_2_completing_stays_when_the_generation_is_another_by_the_time_of_the_commit() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.hold_writes()
    first = a.sync({a: assignment(0)})
    ctx.client("c").enter(version=3)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    b.join()
    assert (ctx.state, ctx.group().generation_id) == (CR, 2)
    ctx.durable()
    assert ctx.state is CR
    assert a.member.assignment == b""


@pytest.mark.parametrize("state", [EMPTY, PR, CR, STABLE])
def test_1_2_any_to_dead_when_the_shard_is_unloaded(state: State) -> None:
    ctx = Context()
    scene = Scene(ctx, state)
    joins, syncs = [], []
    if state is PR:
        joins = [scene.a.join()]
    if state is CR:
        syncs = [scene.b.sync()]
    group = ctx.group()
    ctx.close()
    assert group.state is DEAD
    assert ctx.shard.groups == {}
    assert [call.error for call in joins + syncs] == [ErrorCode.NOT_COORDINATOR] * len(joins + syncs)
    assert ctx.shard.next_deadline() is None  # its timers have died with it


def test_1_2_deletion_does_not_pass_through_dead() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    group = ctx.group()
    ctx.delete_group()
    assert group.state is EMPTY
    assert (ctx.shard.groups, ctx.records[-1].value) == ({}, None)


def test_1_2_the_time_of_the_transition_is_persisted() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.advance(1_234)
    a.leave()
    assert ctx.records[-1].value.current_state_timestamp == ctx.now  # type: ignore[union-attr]
    ctx.advance(50)
    ctx.restart()
    assert ctx.group().state_since == ctx.now - 50


# -- 1.4 what Describe and List say


def test_1_4_stable_has_the_protocol_metadata_and_assignments() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", instance="i"))
    found = ctx.describe()
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    assert [(m.member_id, m.client_id, m.group_instance_id) for m in found.members] == [
        (a.member_id, "a", None),
        (b.member_id, "b", "i"),
    ]
    assert [m.member_metadata for m in found.members] == [subscription()] * 2
    assert [partitions_in(m.member_assignment) for m in found.members] == [[0], [1]]
    assert {m.client_host for m in found.members} == {"/10.0.0.1"}
    assert found.authorized_operations == -(2**31)


def test_1_4_preparing_has_no_protocol_and_no_metadata_but_the_assignments_still_stored() -> None:
    ctx = Context()
    Scene(ctx, PR)
    found = ctx.describe()
    assert (found.protocol_type, found.protocol_data) == ("consumer", "")
    assert {m.member_metadata for m in found.members} == {b""}
    assert [m.member_assignment for m in found.members] == [assignment(0), assignment(1), assignment(2), b""]


def test_1_4_assignments_are_empty_after_a_reset() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    b.join()
    assert ctx.state is CR
    assert [m.member_assignment for m in ctx.describe().members] == [assignment(0), assignment(1)]
    ctx.client("c").enter(version=3)  # CR -> PR
    assert {m.member_assignment for m in ctx.describe().members} == {b""}


def test_1_4_list_has_type_and_state_and_an_empty_protocol_type_for_simple_groups() -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.commit({0: 1}, ("simple", "", -1, None))
    rows = [(row.group_id, row.protocol_type, row.group_state, row.group_type) for row in ctx.list()]
    assert rows == [("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]


@pytest.mark.parametrize(
    ("states", "expected"),
    [(["Stable"], ["g"]), ([" sTaBlE "], ["g"]), (["empty", "STABLE"], ["g", "simple"]), (["nonsense"], [])],
)
def test_1_4_the_state_filter_is_case_insensitive_and_trimmed(states: list[str], expected: list[str]) -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.commit({0: 1}, ("simple", "", -1, None))
    assert [row.group_id for row in ctx.list(states)] == expected


@pytest.mark.parametrize(
    ("types", "expected"), [(["CLASSIC"], ["g"]), (["consumer"], []), (["nonsense"], []), (["x", "Classic"], ["g"])]
)
def test_1_4_the_type_filter_is_case_insensitive_and_an_unknown_type_matches_nothing(
    types: list[str], expected: list[str]
) -> None:
    ctx = Context()
    ctx.stable("a")
    assert [row.group_id for row in ctx.list(types=types)] == expected


def test_1_4_delete_writes_tombstones_of_all_offsets_then_of_the_group() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.commit({0: 5, 1: 6})
    a.commit({0: 7}, topic="u")
    a.leave()
    before = len(ctx.records)
    assert ctx.delete_group().error is ErrorCode.NONE
    written = ctx.written(before)
    assert [record.value for record in written] == [None] * 4
    keys = [(record.key.topic, record.key.partition) for record in written[:3]]  # type: ignore[attr-defined]
    assert keys == [(TOPIC, 0), (TOPIC, 1), ("u", 0)]
    assert type(written[3].key).__name__ == "GroupMetadataKey"
    assert ctx.fetch_all() == {}
    ctx.restart()
    assert (ctx.shard.groups, ctx.fetch_all()) == ({}, {})


def test_1_4_a_group_whose_deletion_cannot_be_written_is_still_there() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.commit({0: 5})
    a.leave()
    ctx.hold_writes()
    call = ctx.delete_group()
    assert call.is_parked
    ctx.fail_writes(ErrorCode.KAFKA_STORAGE_ERROR)
    assert call.error is ErrorCode.NOT_COORDINATOR
    assert (ctx.state, ctx.group().generation_id, ctx.fetch_offset()) == (EMPTY, 2, 5)


def test_1_4_a_join_while_the_deletion_is_under_way_makes_a_new_group_that_outlives_it() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.hold_writes()
    deleted = ctx.delete_group()
    b = ctx.client("b")
    b.enter()
    ctx.durable()
    assert deleted.error is ErrorCode.NONE
    ctx.advance(DELAY)
    assert b.generation_id == 1
    b.sync({b: assignment(0)})
    ctx.durable()
    ctx.restart()
    assert (ctx.state, list(ctx.group().members)) == (STABLE, [b.member_id])


def test_1_4_offsets_committed_while_the_deletion_is_under_way_outlive_it() -> None:
    ctx = Context()
    ctx.commit({0: 5, 1: 6})
    ctx.hold_writes()
    ctx.delete_group()
    call = ctx.commit({0: 9})
    ctx.durable()
    assert call.error is ErrorCode.NONE
    assert ctx.fetch_all() == {(TOPIC, 0): 9}
    ctx.restart()
    assert ctx.fetch_all() == {(TOPIC, 0): 9}
    assert ctx.state is EMPTY
