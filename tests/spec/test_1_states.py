"""Section 1: states, transitions, the answer to every request in every state, what Describe and List say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.broker.handlers import HANDLERS
from equipoise.coordinator.events import StateChanged
from equipoise.coordinator.reasons import Trigger
from equipoise.coordinator.states import TRANSITIONS, IllegalTransition, State
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    START,
    TOPIC,
    Call,
    Client,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)

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
        group.transition(target, START + 5)
        assert (group.state, group.previous_state, group.state_since) == (target, origin, START + 5)
    else:
        with pytest.raises(IllegalTransition):
            group.transition(target, START)


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
    ctx.reload()
    assert ctx.state is EMPTY


def test_1_2_none_to_empty_by_replay_of_group_metadata_without_members() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.reload()
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)


def test_1_2_none_to_stable_by_replay_of_group_metadata_with_members() -> None:
    ctx = Context()
    ctx.stable("a", "b")
    ctx.reload()
    assert (ctx.state, ctx.group().generation_id) == (STABLE, 1)


def test_1_2_empty_to_preparing_by_the_first_member() -> None:
    ctx = Context()
    ctx.client("a").enter()
    assert ctx.state is PR
    assert ctx.last_event(StateChanged).cause == (Trigger.MEMBER_JOINED, ctx.group().members["a-1"].who, None, 0, 0)


Change = Callable[[Context, Client, Client], object]

BEGINNERS: dict[str, tuple[Change, Trigger]] = {
    "new member": (lambda ctx, a, b: ctx.client("c").enter(), Trigger.MEMBER_JOINED),
    "member leaves": (lambda ctx, a, b: b.leave(), Trigger.MEMBER_LEFT),
    "member changes its protocols": (
        lambda ctx, a, b: b.join(offered=protocols("range", metadata=subscription("t", "u"))),
        Trigger.SUBSCRIPTION_CHANGED,
    ),
    "member is silent for its session timeout": (
        lambda ctx, a, b: (ctx.advance(SESSION - 1), a.heartbeat(), ctx.advance(1)),
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
    assert ctx.last_event(StateChanged).cause == (Trigger.LEADER_REJOINED, a.member.who, None, 0, 0)


def test_1_2_stable_to_preparing_when_a_replaced_static_member_changes_the_selected_protocol() -> None:
    ctx = Context()
    (s,) = ctx.stable(ctx.client("s", instance="i", offered=protocols("range", "sticky")))
    call = s.restart(offered=protocols("sticky", "range"))
    assert ctx.all_events(StateChanged)[-2].cause == (Trigger.STATIC_MEMBER_REPLACED, s.member.who, None, 0, 0)
    assert (call.reply.protocol_name, call.reply.generation_id) == ("sticky", 2)  # alone, so it is complete at once


def test_1_2_completing_to_preparing_by_any_replacement_of_a_static_member() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    assert s.restart().is_parked
    assert ctx.state is PR
    assert ctx.last_event(StateChanged).cause == (
        Trigger.STATIC_MEMBER_REPLACED,
        ctx.group().members["i-3"].who,
        None,
        0,
        0,
    )


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
    ctx.reload()
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
    assert ctx.last_event(StateChanged).cause == (Trigger.ASSIGNMENT_NOT_WRITTEN, ("", "", "", None), None, 0, 0)


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
    world = World(ctx, state)
    joins, syncs = [], []
    if state is PR:
        joins = [world.a.join()]
    if state is CR:
        syncs = [world.b.sync()]
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
    ctx.reload()
    assert ctx.group().state_since == ctx.now - 50


# -- 1.3 request x state


class World:
    """A group in a state, with a leader a, followers b and s (static, id i), and p, whose id is reserved."""

    def __init__(self, ctx: Context, state: State | None) -> None:
        self.ctx = ctx
        self.a, self.b = ctx.client("a"), ctx.client("b")
        self.s = ctx.client("s", instance="i")
        self.p, self.parked = ctx.client("p"), Call(9)
        if state is None:
            return
        if state is EMPTY:
            ctx.stable(self.a, self.b, self.s)
            ctx.leave((self.a.member_id, None), (self.b.member_id, None), ("", "i"))
        elif state is CR:
            ctx.completing(self.a, self.b, self.s)
        else:
            ctx.stable(self.a, self.b, self.s)
        if state is PR:
            self.parked = ctx.client("new").enter(version=3)
        self.p.join()
        if state is DEAD:
            ctx.close()
        else:
            assert ctx.state is state


def changed() -> list[tuple[str, bytes]]:
    return protocols("range", metadata=subscription("other"))


REQUESTS: dict[str, Callable[[World], Call]] = {
    "JoinGroup mid='' dynamic, v>=4": lambda w: w.ctx.client("n").join(),
    "JoinGroup mid='' dynamic, v<4": lambda w: w.ctx.client("n").join(version=3),
    "JoinGroup mid='' static, iid unknown": lambda w: w.ctx.client("n", instance="n").join(),
    "JoinGroup mid='' static, iid known": lambda w: w.s.restart(),
    "JoinGroup mid known pending": lambda w: w.p.join(),
    "JoinGroup mid known member, leader": lambda w: w.a.join(),
    "JoinGroup mid known member, same protocols": lambda w: w.b.join(),
    "JoinGroup mid known member, other protocols": lambda w: w.b.join(offered=changed()),
    "JoinGroup mid unknown to group": lambda w: w.ctx.join("stranger"),
    "SyncGroup": lambda w: w.b.sync(),
    "SyncGroup of the leader": lambda w: w.a.sync({w.a: assignment(0)}),
    "Heartbeat": lambda w: w.b.heartbeat(),
    "LeaveGroup": lambda w: w.b.leave(),
    "LeaveGroup pending": lambda w: w.p.leave(),
    "OffsetCommit gen>=0, valid member, v>=9": lambda w: w.b.commit(),
    "OffsetCommit gen>=0, valid member, v<9": lambda w: w.b.commit(version=8),
    "OffsetCommit gen<0, mid='', iid=null": lambda w: w.ctx.commit({0: 1}),
    "OffsetDelete": lambda w: w.ctx.delete_offsets(0),
    "OffsetDelete, not subscribed": lambda w: w.ctx.delete_offsets(0, topic="u"),
    "DeleteGroups": lambda w: w.ctx.delete_group(),
}

NOT_APPLICABLE = "n/a"
# The answer (a code, or "parked"), then the state afterwards. Dead is what follows an unload; then the shard says 16
# before it looks for a group (3.5: where the coordinator is comes before existence and Dead). Requests of which
# only the handler knows that the shard is unloaded have "handler" there; they are in test_5, 5.4.
CELLS: dict[str, list[str]] = {
    #                                                none        Empty       PR           CR           Stable       Dead
    "JoinGroup mid='' dynamic, v>=4": ["79 Empty", "79 Empty", "79 PR", "79 CR", "79 Stable", "16"],
    "JoinGroup mid='' dynamic, v<4": ["parked PR", "parked PR", "parked PR", "parked PR", "parked PR", "16"],
    "JoinGroup mid='' static, iid unknown": ["parked PR", "parked PR", "parked PR", "parked PR", "parked PR", "16"],
    "JoinGroup mid='' static, iid known": ["n/a", "n/a", "parked PR", "parked PR", "0 Stable", "16"],
    "JoinGroup mid known pending": ["n/a", "parked PR", "parked PR", "parked PR", "parked PR", "16"],
    "JoinGroup mid known member, leader": ["25", "25 Empty", "parked PR", "0 CR", "parked PR", "16"],
    "JoinGroup mid known member, same protocols": ["25", "25 Empty", "parked PR", "0 CR", "0 Stable", "16"],
    "JoinGroup mid known member, other protocols": ["25", "25 Empty", "parked PR", "parked PR", "parked PR", "16"],
    "JoinGroup mid unknown to group": ["25", "25 Empty", "25 PR", "25 CR", "25 Stable", "16"],
    "SyncGroup": ["25", "25 Empty", "27 PR", "parked CR", "0 Stable", "16"],
    "SyncGroup of the leader": ["25", "25 Empty", "27 PR", "0 Stable", "0 Stable", "16"],
    "Heartbeat": ["25", "25 Empty", "27 PR", "0 CR", "0 Stable", "16"],
    "LeaveGroup": ["0/25", "0/25 Empty", "0/0 PR", "0/0 PR", "0/0 PR", "16"],
    "LeaveGroup pending": ["n/a", "0/0 Empty", "0/0 PR", "0/0 PR", "0/0 PR", "16"],
    "OffsetCommit gen>=0, valid member, v>=9": ["69", "25 Empty", "0 PR", "27 CR", "0 Stable", "16"],
    "OffsetCommit gen>=0, valid member, v<9": ["22", "25 Empty", "0 PR", "27 CR", "0 Stable", "16"],
    "OffsetCommit gen<0, mid='', iid=null": ["0 Empty", "0 Empty", "25 PR", "25 CR", "25 Stable", "16"],
    "OffsetDelete": ["69", "0 Empty", "86 PR", "86 CR", "86 Stable", "handler"],
    "OffsetDelete, not subscribed": ["69", "0 Empty", "0 PR", "0 CR", "0 Stable", "handler"],
    "DeleteGroups": ["69", "0", "68 PR", "68 CR", "68 Stable", "handler"],
}
COLUMNS = [None, EMPTY, PR, CR, STABLE, DEAD]
SHORT = {PR: "PR", CR: "CR"}


def outcome(ctx: Context, call: Call) -> str:
    if call.is_parked:
        answer = "parked"
    elif hasattr(call.reply, "members") and not hasattr(call.reply, "leader") and call.reply.members:
        answer = f"{call.reply.error_code}/{call.member_errors[0].value}"
    else:
        answer = str(call.error.value)
    group = ctx.shard.groups.get("g")
    return answer if group is None else f"{answer} {SHORT.get(group.state, group.state.value)}"


@pytest.mark.parametrize(
    ("row", "state", "expected"),
    [
        pytest.param(row, state, cell, id=f"{row} in {state.value if state else 'no group'}")
        for row, cells in CELLS.items()
        for state, cell in zip(COLUMNS, cells, strict=True)
        if cell not in (NOT_APPLICABLE, "handler")
    ],
)
def test_1_3_request_by_state(row: str, state: State | None, expected: str) -> None:
    ctx = Context()
    world = World(ctx, state)
    if state is None:
        for client in (world.a, world.b):
            client.member_id, client.generation_id = client.name, 1
    call = REQUESTS[row](world)
    assert outcome(ctx, call) == expected


def test_1_3_every_request_has_its_row() -> None:
    assert REQUESTS.keys() == CELLS.keys()


def test_1_3_a_new_member_of_a_new_group_is_given_its_id_first() -> None:
    ctx = Context()
    call = ctx.join(client_id="app")
    assert call.reply.member_id == "app-1"
    assert ctx.group().pending_members == {"app-1"}


@pytest.mark.parametrize("state", [PR, CR])
def test_1_3_static_iid_known_is_replaced(state: State) -> None:
    ctx = Context()
    world = World(ctx, state)
    old = world.s.member_id
    world.s.restart()
    assert old not in ctx.group().members
    assert ctx.group().static_members["i"].startswith("i-")


def test_1_3_static_iid_known_cannot_be_while_empty() -> None:
    ctx = Context()
    World(ctx, EMPTY)
    assert ctx.group().static_members == {}


@pytest.mark.parametrize("state", [CR, STABLE])
def test_1_3_join_of_a_known_member_answered_at_once_has_the_current_generation(state: State) -> None:
    ctx = Context()
    world = World(ctx, state)
    reply = world.b.join().reply
    assert (reply.generation_id, reply.leader, reply.members) == (1, world.a.member_id, [])


def test_1_3_sync_in_stable_gives_the_stored_assignment_also_to_the_leader() -> None:
    ctx = Context()
    world = World(ctx, STABLE)
    assert partitions_in(world.b.sync().reply.assignment) == [1]
    assert partitions_in(world.a.sync({world.a: assignment(7)}).reply.assignment) == [0]


@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_1_3_heartbeat_resets_the_session_timer_in_every_state_with_members(state: State) -> None:
    ctx = Context()
    world = World(ctx, state)
    ctx.advance(4_000)
    world.b.heartbeat()
    assert world.b.deadline == SESSION


@pytest.mark.parametrize("state", [PR, STABLE])
def test_1_3_commit_resets_the_session_timer(state: State) -> None:
    ctx = Context()
    world = World(ctx, state)
    ctx.advance(4_000)
    assert world.b.commit().error is ErrorCode.NONE
    assert world.b.deadline == SESSION


def test_1_3_leave_in_preparing_completes_the_join_if_nobody_else_is_missing() -> None:
    ctx = Context()
    world = World(ctx, PR)
    calls = [world.a.join(), world.s.join()]
    world.p.leave()
    assert ctx.state is PR
    world.b.leave()
    assert ctx.state is CR
    assert [call.reply.generation_id for call in [*calls, world.parked]] == [2, 2, 2]


@pytest.mark.parametrize("state", [None, EMPTY, PR, CR, STABLE])
def test_1_3_offset_fetch_is_never_an_error(state: State | None) -> None:
    ctx = Context()
    World(ctx, state)
    row = ctx.fetch()
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code) == (-1, -1, "", 0)


@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_1_3_offset_delete_of_another_type_than_consumer_is_68(state: State) -> None:
    ctx = Context()
    (a,) = ctx.completing(ctx.client("a", protocol_type="connect"))
    if state is not CR:
        a.sync()
    if state is PR:
        ctx.client("n", protocol_type="connect").enter(version=3)
    assert ctx.state is state
    assert ctx.delete_offsets(0).reply.error_code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("state", [EMPTY, PR, CR, STABLE])
def test_1_3_describe_in_every_state(state: State) -> None:
    ctx = Context()
    World(ctx, state)
    found = ctx.describe()
    assert (found.error_code, found.group_state) == (ErrorCode.NONE, state.value)
    assert len(found.members) == len(ctx.group().members)


def test_1_3_describe_of_no_such_group() -> None:
    ctx = Context()
    new, old = ctx.describe(version=6), ctx.describe(version=5)
    assert (new.error_code, new.error_message, new.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g not found.",
        "Dead",
    )
    assert (old.error_code, old.group_state, old.members) == (ErrorCode.NONE, "Dead", [])


def test_1_3_txn_offset_commit_is_not_served() -> None:
    """Both its rows: transactions are left out (SUPPORTED.md), so no client is told of the API."""
    assert 28 not in HANDLERS


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
    World(ctx, PR)
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
    ctx.reload()
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
    ctx.reload()
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
    ctx.reload()
    assert ctx.fetch_all() == {(TOPIC, 0): 9}
    assert ctx.state is EMPTY
