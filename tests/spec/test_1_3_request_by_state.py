"""Rule 1.3: the answer to every request in every state, cell by cell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.simulate import Call
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    SESSION,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)
from tests.spec.scene import Scene

EMPTY, PR, CR, STABLE, DEAD = State


def changed() -> list[tuple[str, bytes]]:
    return protocols("range", metadata=subscription("other"))


REQUESTS: dict[str, Callable[[Scene], Call]] = {
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
# before it looks for a group (rule 3.5: where the coordinator is comes before existence and Dead). Requests of which
# only the handler knows that the shard is unloaded have "handler" there; they are in test_5, rule 5.4.
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
    scene = Scene(ctx, state)
    if state is None:
        for client in (scene.a, scene.b):
            client.member_id, client.generation_id = client.client_id, 1
    call = REQUESTS[row](scene)
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
    scene = Scene(ctx, state)
    old = scene.s.member_id
    scene.s.restart()
    assert old not in ctx.group().members
    assert ctx.group().static_members["i"].startswith("i-")


def test_1_3_static_iid_known_cannot_be_while_empty() -> None:
    ctx = Context()
    Scene(ctx, EMPTY)
    assert ctx.group().static_members == {}


@pytest.mark.parametrize("state", [CR, STABLE])
def test_1_3_join_of_a_known_member_answered_at_once_has_the_current_generation(state: State) -> None:
    ctx = Context()
    scene = Scene(ctx, state)
    reply = scene.b.join().reply
    assert (reply.generation_id, reply.leader, reply.members) == (1, scene.a.member_id, [])


def test_1_3_sync_in_stable_gives_the_stored_assignment_also_to_the_leader() -> None:
    ctx = Context()
    scene = Scene(ctx, STABLE)
    assert partitions_in(scene.b.sync().reply.assignment) == [1]
    assert partitions_in(scene.a.sync({scene.a: assignment(7)}).reply.assignment) == [0]


@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_1_3_heartbeat_resets_the_session_timer_in_every_state_with_members(state: State) -> None:
    ctx = Context()
    scene = Scene(ctx, state)
    ctx.advance(4_000)
    scene.b.heartbeat()
    assert scene.b.deadline == SESSION


@pytest.mark.parametrize("state", [PR, STABLE])
def test_1_3_commit_resets_the_session_timer(state: State) -> None:
    ctx = Context()
    scene = Scene(ctx, state)
    ctx.advance(4_000)
    assert scene.b.commit().error is ErrorCode.NONE
    assert scene.b.deadline == SESSION


def test_1_3_leave_in_preparing_completes_the_join_if_nobody_else_is_missing() -> None:
    ctx = Context()
    scene = Scene(ctx, PR)
    assert scene.parked is not None
    calls = [scene.a.join(), scene.s.join(), scene.parked]
    scene.p.leave()
    assert ctx.state is PR
    scene.b.leave()
    assert ctx.state is CR
    assert [call.reply.generation_id for call in calls] == [2, 2, 2]


@pytest.mark.parametrize("state", [None, EMPTY, PR, CR, STABLE])
def test_1_3_offset_fetch_is_never_an_error(state: State | None) -> None:
    ctx = Context()
    Scene(ctx, state)
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
    Scene(ctx, state)
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
