"""4: committed offsets. OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import (
    OTHER,
    Section,
    Table,
    assigned,
    completing,
    empty,
    enter,
    preparing,
    stable,
    synced,
)
from proving.conformance.steps import (
    GroupId,
    Script,
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
    subscription,
    sync,
)

_SECTION = Section("4 offsets")
_script, _scripts = _SECTION.script, _SECTION.scripts

_COMMIT_VERSIONS, _FETCH_VERSIONS = range(2, 11), range(1, 11)
_SOME = {("t", 0): 1, ("t", 3): 4, ("u", 1): 9}
_MIXED = {("t", 0): 1, ("t", 9): 2, ("none", 0): 3, ("t", -1): 4, ("u", 1): 5}
_ASK_MIXED = {"t": [0, 9, 1], "none": [0], "u": [1]}


def scripts() -> Iterator[Script]:
    for v in _COMMIT_VERSIONS:
        yield from _commit_in_version(v)
    for v in _FETCH_VERSIONS:
        yield from _fetch_in_version(v)
    yield from _scripts(_COMMIT)
    yield from _metadata()
    yield from _scripts(_DELETE)


def _commit_in_version(v: int) -> Iterator[Script]:
    yield _script(
        f"commit from outside, v{v}", simple_commit("s", _SOME, v, metadata="hi", epoch=3), fetch("s"), list_groups("o")
    )
    yield _script(
        f"commit of a member, v{v}",
        *stable("a"),
        commit("a", _SOME, v, metadata="hi", epoch=3),
        commit("a", {("t", 0): 2}, v),
        fetch("a"),
    )
    yield _script(f"commit of what does not exist, v{v}", simple_commit("s", _MIXED, v), fetch("s"))
    yield _script(f"nothing but what does not exist, v{v}", simple_commit("s", {("none", 0): 1}, v), describe("o"))
    yield _script(f"the same in a live group, v{v}", *stable("a"), simple_commit("s", {("none", 0): 1, ("t", 7): 1}, v))
    yield _script(
        f"mixed in a live group, v{v}",
        *stable("a"),
        simple_commit("s", _MIXED, v),
        commit("a", _MIXED, v),
        commit("a", _MIXED, v, generation=7),
    )
    yield _script(
        f"commit of nothing, v{v}", simple_commit("s", {}, v), commit("a", {}, v, generation=5), describe("o")
    )
    yield _script(
        f"no group id, v{v}",
        simple_commit("s", v=v, group=""),
        fetch("s", groups=[""]),
        commit("s", v=v, group="", generation=3),
    )
    yield _script(
        f"negative offsets, v{v}",
        simple_commit("s", {("t", 0): -1, ("t", 1): -7}, v),
        fetch("s", {"t": [0, 1]}),
        fetch("s"),
    )
    yield _script(
        f"a group that has gone, v{v}",
        *empty(),
        delete_groups("o"),
        commit("a", v=v),
        commit("a", v=v, generation=-1),
        describe("o"),
    )
    yield _script(f"null metadata, v{v}", simple_commit("s", v=v, metadata=None), fetch("s"))
    yield _script(f"a retention of its own, v{v}", simple_commit("s", v=v, retention=86_400_000, epoch=5), fetch("s"))


def _fetch_in_version(v: int) -> Iterator[Script]:
    committed = simple_commit("s", _SOME, metadata="m", epoch=2)
    yield _script(f"fetch what is there, v{v}", committed, fetch("s", {"t": [0, 3], "u": [1]}, v))
    yield _script(f"fetch what is not, v{v}", committed, fetch("s", _ASK_MIXED, v))
    yield _script(f"fetch nothing, v{v}", committed, fetch("s", {}, v))
    yield _script(f"fetch of no group, v{v}", fetch("s", _ASK_MIXED, v), describe("o"))
    yield _script(f"fetch with no group id, v{v}", fetch("s", {"t": [0]}, v, groups=[""]))
    yield _script(f"stable offsets, v{v}", committed, fetch("s", {"t": [0, 1]}, v, stable=True))
    yield _script(f"one partition twice, v{v}", committed, fetch("s", {"t": [0, 0]}, v))
    yield _script(
        f"as a member, v{v}", *stable("a"), commit("a"), fetch("a", {"t": [0]}, v, member_id="nobody", epoch=4)
    )
    yield _script(
        f"during a rebalance, v{v}",
        *stable("a", "b"),
        commit("a"),
        join("b", protocols=OTHER),
        fetch("a", {"t": [0]}, v),
        join("a"),
        fetch("b", {"t": [0]}, v),
    )
    if v >= 2:
        yield _script(f"fetch all, v{v}", committed, fetch("s", v=v))
        yield _script(f"fetch all of no group, v{v}", fetch("s", v=v))
    if v >= 8:
        both = [GroupId("g"), GroupId("h"), GroupId("g")]
        yield _script(
            f"several groups, v{v}", committed, simple_commit("s", group=GroupId("h")), fetch("s", v=v, groups=both[:2])
        )
        yield _script(f"a group twice, v{v}", committed, fetch("s", v=v, groups=both))
        yield _script(f"no groups, v{v}", fetch("s", v=v, groups=[]))


_COMMIT: Table = {
    "outside and inside by turns": [
        simple_commit("s"),
        *stable("a"),
        simple_commit("s"),
        commit("a", {("t", 1): 3}),
        leave("a"),
        simple_commit("s", {("t", 2): 8}),
        fetch("s"),
    ],
    "from outside while an id is reserved": [
        join("a", member_id=""),
        simple_commit("s"),
        join("a"),
        simple_commit("s"),
    ],
    "through a rebalance": [
        *stable("a", "b"),
        commit("b", {("t", 0): 1}),
        join("b", protocols=OTHER),
        commit("b", {("t", 0): 2}),
        commit("a", {("t", 0): 3}),
        join("a"),
        commit("a", {("t", 0): 4}),
        sync("b"),
        commit("b", {("t", 0): 5}),
        sync("a", assign=assigned("a", "b")),
        commit("b", {("t", 0): 6}),
    ],
    "after it has left": [
        *stable("a", "b"),
        leave("b"),
        commit("b"),
        leave("a"),
        commit("a"),
        commit("a", generation=-1),
    ],
    "of an Empty group, with whatever id": [
        *empty(),
        simple_commit("s", member_id="nobody"),
        simple_commit("s", instance="X"),
        commit("s", member_id="nobody", generation=2),
    ],
    "offsets outlive members": [
        *stable("a"),
        commit("a"),
        leave("a"),
        fetch("s"),
        *enter("b"),
        *synced("b"),
        fetch("b"),
    ],
    "offsets go with the group": [
        *stable("a"),
        commit("a"),
        leave("a"),
        delete_groups("o"),
        fetch("s"),
        *enter("b"),
        fetch("b"),
    ],
    "the same partition twice": [
        simple_commit("s", {("t", 0): 1}),
        simple_commit("s", {("t", 0): 1}),
        simple_commit("s", {("t", 0): 0}),
    ],
    "a large offset": [simple_commit("s", {("t", 0): 2**63 - 1, ("t", 1): 2**40}), fetch("s")],
    "a commit for another type of group": [
        *enter("a", protocol_type="connect", protocols=("x",)),
        sync("a", protocol_type="connect", protocol_name="x"),
        commit("a"),
        simple_commit("s"),
        leave("a"),
        simple_commit("s"),
    ],
}


def _metadata() -> Iterator[Script]:
    limit = 4096
    for name, text in {
        "at the limit": "x" * limit,
        "one over": "x" * (limit + 1),
        "two units each, at the limit": "\U0001f600" * (limit // 2),
        "two units each, over": "\U0001f600" * (limit // 2) + "x",
        "three bytes each, at the limit": "€" * limit,
        "three bytes each, over": "€" * (limit + 1),
    }.items():
        yield _script(
            f"metadata: {name}", simple_commit("s", {("t", 0): 5}), simple_commit("s", _SOME, metadata=text), fetch("s")
        )
    yield _script("metadata too long from a member", *stable("a"), commit("a", metadata="x" * 5000), fetch("a"))
    yield _script("metadata too long and not allowed", *completing("a"), commit("a", metadata="x" * 5000))


_GONE = {"t": [0, 3, 9], "u": [1, 0], "none": [0]}
_DELETE: Table = {
    "delete of no group": [delete_offsets("o", _GONE)],
    "delete with no group id": [delete_offsets("o", _GONE, group="")],
    "delete nothing": [simple_commit("s"), delete_offsets("o", {}), delete_offsets("o", {"t": []})],
    "delete nothing of no group": [delete_offsets("o", {})],
    "delete of a group of offsets": [simple_commit("s", _SOME), delete_offsets("o", _GONE), fetch("s"), describe("o")],
    "delete of an Empty group": [*stable("a"), commit("a", _SOME), leave("a"), delete_offsets("o", _GONE), fetch("s")],
    "delete of a live group": [*stable("a"), commit("a", _SOME), delete_offsets("o", _GONE), fetch("s")],
    "delete during the join": [*preparing("a", "b"), commit("a", _SOME), delete_offsets("o", _GONE)],
    "delete during the sync": [*stable("a"), commit("a", _SOME), join("a"), delete_offsets("o", _GONE)],
    "delete before the first generation is assigned": [
        simple_commit("s", _SOME),
        *completing("a"),
        delete_offsets("o", _GONE),
    ],
    "delete while an id is reserved": [simple_commit("s", _SOME), join("a", member_id=""), delete_offsets("o", _GONE)],
    "delete twice": [simple_commit("s", _SOME), delete_offsets("o", {"u": [1]}), delete_offsets("o", {"u": [1]})],
    "delete one partition twice": [simple_commit("s", _SOME), delete_offsets("o", {"u": [1, 1]})],
    "delete of another type of group": [
        simple_commit("s", _SOME),
        *enter("a", protocol_type="connect", protocols=("x",)),
        delete_offsets("o", _GONE),
        leave("a"),
        delete_offsets("o", _GONE),
    ],
    "subscriptions that cannot be read": [
        simple_commit("s", _SOME),
        *enter("a", protocols=(("range", b"?"),)),
        *synced("a"),
        delete_offsets("o", _GONE),
    ],
    "subscriptions of several": [
        simple_commit("s", _SOME),
        *enter("a", protocols=(("range", subscription("t")),)),
        *enter("b", protocols=(("range", subscription("u")),)),
        join("a", protocols=(("range", subscription("t")),)),
        *synced("a", "b"),
        delete_offsets("o", _GONE),
        leave("b"),
        delete_offsets("o", _GONE),
        join("a", protocols=(("range", subscription("t")),)),
        delete_offsets("o", _GONE),
    ],
    "the last offset goes, the group stays": [
        simple_commit("s"),
        delete_offsets("o", {"t": [0]}),
        describe("o"),
        list_groups("o"),
        heartbeat("s"),
    ],
}
