"""1.3: every request in every state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.scripts.groups import OTHER, completing, empty, preparing, reserved, simple, stable
from proving.conformance.steps import (
    Ask,
    Id,
    Script,
    Step,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
    sync,
)

STATES: dict[str, list[Step]] = {
    "no such group": [],
    "a reserved id": reserved(),
    "only offsets": simple(),
    "Empty": empty(),
    "PreparingRebalance": preparing("a", "b"),
    "CompletingRebalance": completing("a", "b"),
    "Stable": stable("a", "b"),
}
STATIC_STATES: dict[str, list[Step]] = {
    "Empty": empty("A"),
    "PreparingRebalance": preparing("A", "B"),
    "CompletingRebalance": completing("A", "B"),
    "Stable": stable("A", "B"),
}

# Each request by name, with the versions in which it is asked.
Rows = dict[str, tuple[Any, tuple[int, ...]]]

DYNAMIC: Rows = {
    "JoinGroup of a newcomer": (lambda v: join("c", v, member_id=""), (0, 1, 3, 4, 5, 7, 9)),
    "JoinGroup of a new static member": (lambda v: join("C", v, member_id=""), (5, 9)),
    "JoinGroup of the leader": (lambda v: join("a", v), (0, 4, 5, 9)),
    "JoinGroup of the leader with other bytes": (lambda v: join("a", v, protocols=OTHER), (5, 9)),
    "JoinGroup of a follower": (lambda v: join("b", v), (0, 4, 5, 9)),
    "JoinGroup of a follower with other bytes": (
        lambda v: join("b", v, protocols=(("range", b"other"),)),
        (3, 5, 9),
    ),
    "JoinGroup of nobody": (lambda v: join("c", v, member_id="nobody"), (0, 4, 9)),
    "JoinGroup of nobody, static": (lambda v: join("C", v, member_id="nobody"), (5, 9)),
    "SyncGroup of the leader": (lambda v: sync("a", v, assign={"a": "1", "b": "2"}), (0, 3, 5)),
    "SyncGroup of a follower": (lambda v: sync("b", v), (0, 3, 5)),
    "SyncGroup of nobody": (lambda v: sync("c", v, member_id="nobody"), (0, 5)),
    "SyncGroup of an instance nobody knows": (lambda v: sync("a", v, instance="X", member_id=Id("a")), (2, 3, 5)),
    "SyncGroup in another generation": (lambda v: sync("b", v, generation=99), (0, 5)),
    "Heartbeat of the leader": (lambda v: heartbeat("a", v), (0, 3, 4)),
    "Heartbeat of a follower": (lambda v: heartbeat("b", v), (0, 4)),
    "Heartbeat of nobody": (lambda v: heartbeat("c", v, member_id="nobody"), (0, 4)),
    "Heartbeat of an instance nobody knows": (lambda v: heartbeat("a", v, instance="X", member_id=Id("a")), (2, 3, 4)),
    "Heartbeat in another generation": (lambda v: heartbeat("a", v, generation=99), (0, 4)),
    "LeaveGroup of the leader": (lambda v: leave("a", v), (0, 2, 3, 5)),
    "LeaveGroup of a follower": (lambda v: leave("b", v), (0, 3)),
    "LeaveGroup of nobody": (lambda v: leave("c", v, member_id="nobody"), (0, 2, 3, 5)),
    "LeaveGroup without an id": (lambda v: leave("c", v, member_id=""), (1, 3, 5)),
    "LeaveGroup of several": (
        lambda v: leave("o", v, members=[(Id("b"), None), ("nobody", None), ("", "X"), (Id("a"), None)]),
        (3, 5),
    ),
    "OffsetCommit of a member": (lambda v: commit("a", {("t", 0): 5}, v), (2, 5, 8, 9, 10)),
    "OffsetCommit of nobody": (lambda v: commit("c", v=v, member_id="nobody"), (2, 8, 9, 10)),
    "OffsetCommit in another generation": (lambda v: commit("b", v=v, generation=99), (2, 8, 9)),
    "OffsetCommit with an id and no generation": (lambda v: commit("a", v=v, generation=-1), (2, 9)),
    "OffsetCommit with a generation and no id": (lambda v: commit("a", v=v, member_id=""), (2, 9)),
    "OffsetCommit from outside": (lambda v: simple_commit("s", v=v), (2, 6, 7, 9, 10)),
    "OffsetCommit from outside, static": (lambda v: simple_commit("s", v=v, instance="X"), (6, 7, 9)),
    "OffsetFetch": (lambda v: fetch("o", {"t": [0, 1]}, v), (1, 2, 5, 7, 8, 9, 10)),
    "OffsetFetch of all": (lambda v: fetch("o", v=v), (2, 7, 8, 10)),
    "OffsetDelete, subscribed": (lambda v: delete_offsets("o", {"t": [0]}), (0,)),
    "OffsetDelete, not subscribed": (lambda v: delete_offsets("o", {"u": [0, 1]}), (0,)),
    "DeleteGroups": (lambda v: delete_groups("o", v), (0, 1, 2)),
    "DescribeGroups": (lambda v: describe("o", v), (0, 3, 5, 6)),
    "ListGroups": (lambda v: list_groups("o", v), (0, 3, 4, 5)),
}
STATIC: Rows = {
    "JoinGroup of a static member that is back, the leader": (lambda v: join("A", v, member_id=""), (5, 8, 9)),
    "JoinGroup of a static member that is back, a follower": (lambda v: join("B", v, member_id=""), (5, 9)),
    "the same with other bytes": (lambda v: join("B", v, member_id="", protocols=OTHER), (5, 9)),
    "the same with another protocol": (
        lambda v: join("B", v, member_id="", protocols=("range", "roundrobin")),
        (5, 9),
    ),
    "JoinGroup of the leader": (lambda v: join("A", v), (5, 9)),
    "JoinGroup of a follower": (lambda v: join("B", v), (5, 9)),
    "JoinGroup with another's id": (lambda v: join("A", v, member_id=Id("B")), (5, 9)),
    "JoinGroup with an id and no instance": (lambda v: join("b", v, member_id=Id("B")), (4, 5, 9)),
    "SyncGroup with another's id": (lambda v: sync("A", v, member_id=Id("B")), (3, 5)),
    "Heartbeat with another's id": (lambda v: heartbeat("A", v, member_id=Id("B")), (3, 4)),
    "LeaveGroup by an administrator": (lambda v: leave("o", v, members=[("", "B")]), (3, 5)),
    "LeaveGroup with another's id": (lambda v: leave("o", v, members=[(Id("A"), "B")]), (3, 5)),
    "LeaveGroup of both": (lambda v: leave("o", v, members=[("", "A"), ("", "B"), ("", "B")]), (3, 5)),
    "OffsetCommit with another's id": (lambda v: commit("A", v=v, member_id=Id("B")), (7, 9)),
    "OffsetCommit of a member": (lambda v: commit("A", v=v), (6, 7, 9)),
    "DescribeGroups": (lambda v: describe("o", v), (3, 4, 6)),
}


def scripts() -> Iterator[Script]:
    yield from _table(STATES, DYNAMIC, ("a", "b"))
    yield from _table(STATIC_STATES, STATIC, ("A", "B"))


def _table(states: dict[str, list[Step]], rows: Rows, members: tuple[str, str]) -> Iterator[Script]:
    for request, (ask, versions) in rows.items():
        for state, steps in states.items():
            for v in versions:
                name = f"{request} v{v} in {state}" + (", static" if members[0].isupper() else "")
                yield Script("1.3 request by state", name, [*steps, ask(v), *_afterwards(*members)])


def _afterwards(leader: str, follower: str) -> list[Ask]:
    """What the answer does not show: who is still a member, in which generation, and whether it can go on."""
    return [heartbeat(leader), heartbeat(follower), commit(follower, {("t", 1): 3}), join(leader), join(follower)]
