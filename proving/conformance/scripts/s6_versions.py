"""All versions of the group requests, and those beyond; the life of a group told in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proving.conformance.scripts.groups import MEMBER_ID_REQUIRED_FROM, OTHER, Section, assigned, enter, stable
from proving.conformance.steps import (
    Ask,
    Script,
    Step,
    commit,
    delete_groups,
    describe,
    fetch,
    find,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
    sync,
)

_SECTION = Section("6 versions")
_script = _SECTION.script

# What Kafka serves, and how to ask for it in any version.
_SERVED: dict[str, tuple[range, Callable[[int], Ask]]] = {
    "OffsetCommit": (range(2, 11), lambda v: simple_commit("a", v=v)),
    "OffsetFetch": (range(1, 11), lambda v: fetch("a", {"t": [0]}, v)),
    "FindCoordinator": (range(7), lambda v: find("a", v)),
    "JoinGroup": (range(10), lambda v: join("a", v, member_id="nobody")),
    "Heartbeat": (range(5), lambda v: heartbeat("a", v, member_id="nobody")),
    "LeaveGroup": (range(6), lambda v: leave("a", v, member_id="nobody")),
    "SyncGroup": (range(6), lambda v: sync("a", v, member_id="nobody")),
    "DescribeGroups": (range(7), lambda v: describe("a", v)),
    "ListGroups": (range(6), lambda v: list_groups("a", v)),
    "DeleteGroups": (range(3), lambda v: delete_groups("a", v)),
}


def scripts() -> Iterator[Script]:
    for api, (served, ask) in _SERVED.items():
        for v in served:
            yield _script(f"{api} v{v}", ask(v), heartbeat("a"))
        for v in (served[0] - 1, served[-1] + 1, 99):
            if v >= 0:
                yield _script(f"{api} v{v}, beyond what is served", ask(v), heartbeat("a"))
    for v in range(10):
        yield _script(f"a life with JoinGroup v{v}", *_life(v))


def _life(v: int) -> list[Step]:
    """Each request in the version that clients of the time of this JoinGroup had."""
    heartbeats, syncs, leaves, commits = min(v, 4), min(v, 5), min(v, 5), min(v + 2, 10)
    both = assigned("a", "b")
    late = [] if v < MEMBER_ID_REQUIRED_FROM else enter("C", v)
    return [
        *enter("a", v),
        sync("a", syncs, assign=assigned("a")),
        *enter("b", v),
        heartbeat("a", heartbeats),
        join("a", v),
        sync("b", syncs),
        sync("a", syncs, assign=both),
        commit("b", {("t", 0): 3, ("u", 1): 4}, commits, metadata="m", epoch=1),
        join("b", v, protocols=OTHER),
        join("a", v),
        sync("a", syncs, assign=both),
        sync("b", syncs),
        leave("a", leaves),
        *late,
        heartbeat("b", heartbeats),
        join("b", v),
        *stable("d")[:1],
    ]
