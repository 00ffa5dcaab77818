"""5.3: what a group is after the broker was killed. Only what was written is there: the last assignment, offsets."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import (
    OTHER,
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
    Generation,
    Id,
    Restart,
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
    subscription,
    sync,
)

_AGAIN = Restart()
_TWO = ("range", "sticky")
_LATER: list[Step] = [heartbeat("a"), heartbeat("b"), describe("o"), commit("a")]
_CONNECT = [
    *enter("a", protocol_type="connect", protocols=("x",)),
    sync("a", protocol_type="connect", protocol_name="x"),
]
_WIDE = (("range", subscription("t", "u")),)
_BACK = join("A", member_id="")

_TABLE: Table = {
    "Stable: nobody notices": [
        *stable("a", "b"),
        commit("b"),
        _AGAIN,
        *_LATER,
        fetch("o"),
        sync("b"),
        list_groups("o"),
    ],
    "Stable: the follower rejoins": [*stable("a", "b"), _AGAIN, join("b"), heartbeat("a")],
    "Stable: the leader rejoins": [*stable("a", "b"), _AGAIN, join("a"), heartbeat("b"), join("b"), *synced("a", "b")],
    "Stable: a follower with several protocols differs now": [
        *stable("a", "b", protocols=_TWO),
        _AGAIN,
        describe("o"),
        join("b", protocols=_TWO),
        heartbeat("a"),
        join("a", protocols=_TWO),
    ],
    "Stable: what was not chosen is forgotten": [
        *stable("a", protocols=_TWO),
        _AGAIN,
        join("b", member_id="", protocols=("sticky",)),
        join("b", protocols=("sticky",)),
    ],
    "Stable: a newcomer": [*stable("a"), _AGAIN, *enter("b"), heartbeat("a"), join("a"), *synced("a", "b")],
    "Stable: it leaves": [*stable("a", "b"), _AGAIN, leave("b"), heartbeat("a"), join("a")],
    "the first CompletingRebalance": [*completing("a"), _AGAIN, heartbeat("a"), sync("a"), join("a"), *enter("c")],
    "a later CompletingRebalance": [
        *stable("a", "b"),
        join("a"),
        join("b"),
        _AGAIN,
        *_LATER,
        heartbeat("a", generation=Generation(-1)),
        sync("a", assign=assigned("a", "b")),
        sync("b", generation=Generation(-1)),
    ],
    "PreparingRebalance": [*preparing("a", "b"), _AGAIN, *_LATER, join("b", protocols=OTHER), join("a")],
    "PreparingRebalance for a newcomer": [*stable("a"), *enter("b"), _AGAIN, *_LATER, join("b"), *enter("b")],
    "Empty": [*stable("a"), commit("a"), leave("a"), _AGAIN, *_LATER, *enter("c"), heartbeat("c"), fetch("o")],
    "a group of offsets": [
        simple_commit("s", metadata="m", epoch=4),
        _AGAIN,
        fetch("s"),
        list_groups("o"),
        describe("o"),
    ],
    "offsets with a retention of their own": [simple_commit("s", v=3, epoch=4, retention=10**9), _AGAIN, fetch("s")],
    "a reserved id": [join("a", member_id=""), _AGAIN, describe("o"), join("a"), heartbeat("a")],
    "a reserved id in a live group": [*stable("a"), join("b", member_id=""), _AGAIN, join("b"), heartbeat("a")],
    "a deleted group": [*empty(), delete_groups("o"), _AGAIN, *_LATER, list_groups("o"), *enter("c")],
    "deleted offsets": [
        simple_commit("s", {("t", 0): 1, ("u", 0): 2}),
        delete_offsets("o", {"u": [0]}),
        _AGAIN,
        fetch("s"),
    ],
    "static members": [
        *stable("A", "B"),
        _AGAIN,
        heartbeat("A"),
        _BACK,
        heartbeat("A", member_id=Id("A", 1)),
        sync("A"),
    ],
    "a static member that was back": [
        *stable("A", "b"),
        _BACK,
        _AGAIN,
        heartbeat("A"),
        heartbeat("A", member_id=Id("A", 1)),
    ],
    "a static member that was back with more topics": [
        *stable("A"),
        join("A", member_id="", protocols=_WIDE),
        _AGAIN,
        delete_offsets("o", {"t": [0], "u": [0]}),
        describe("o"),
    ],
    "another type": [*_CONNECT, commit("a"), _AGAIN, heartbeat("a"), describe("o"), delete_offsets("o", {"t": [0]})],
    "subscriptions": [*stable("a"), commit("a", {("u", 0): 1}), _AGAIN, delete_offsets("o", {"t": [0], "u": [0]})],
    "a generation that nobody is in": [*stable("a"), leave("a"), *enter("b"), leave("b"), _AGAIN, *enter("c")],
}


def scripts() -> Iterator[Script]:
    for name, steps in _TABLE.items():
        yield Script("5.3 restart", name, steps, world="restart")
