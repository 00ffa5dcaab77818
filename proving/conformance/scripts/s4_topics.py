"""4.6: offsets go with their topic. A topic made anew does not inherit them."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import OTHER, Table, stable
from proving.conformance.steps import (
    Ask,
    DropTopic,
    MakeTopic,
    Script,
    TopicId,
    UntilOffsets,
    commit,
    delete_offsets,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
)

_MADE, _GONE = MakeTopic("x"), DropTopic("x")
_BOTH = {("t", 0): 1, ("x", 0): 2, ("x", 1): 3}
_ASKED = {"t": [0], "x": [0, 1]}


def _with_old_id(ask: Ask) -> Ask:
    """By the id of the first topic of that name."""
    rows = [{**row, "topic_id": TopicId("x", 1)} for row in ask.fields["topics"]]
    groups = [{**row, "topics": rows} for row in ask.fields.get("groups", ())]
    return Ask(ask.who, ask.api, ask.version, {**ask.fields, "topics": rows, **({"groups": groups} if groups else {})})


_TABLE: Table = {
    "a group of offsets": [_MADE, simple_commit("s", _BOTH), _GONE, UntilOffsets(1), fetch("s", _ASKED), describe("o")],
    "its last offsets": [
        _MADE,
        simple_commit("s", {("x", 0): 1}),
        _GONE,
        UntilOffsets(0),
        describe("o"),
        list_groups("o"),
    ],
    "a live group": [*stable("a"), _MADE, commit("a", _BOTH), _GONE, UntilOffsets(1), heartbeat("a"), fetch("a")],
    "a live group that joins": [
        *stable("a", "b"),
        _MADE,
        commit("a", _BOTH),
        join("b", protocols=OTHER),
        _GONE,
        UntilOffsets(1),
        join("a"),
    ],
    "an Empty group": [*stable("a"), _MADE, commit("a", _BOTH), leave("a"), _GONE, UntilOffsets(1), describe("o")],
    "a commit comes too late": [_MADE, simple_commit("s", _BOTH), _GONE, UntilOffsets(1), simple_commit("s", _BOTH)],
    "a commit by id comes too late": [
        _MADE,
        simple_commit("s", _BOTH),
        _GONE,
        UntilOffsets(1),
        simple_commit("s", _BOTH, 10),
    ],
    "a deletion comes too late": [
        _MADE,
        simple_commit("s", _BOTH),
        _GONE,
        UntilOffsets(1),
        delete_offsets("o", _ASKED),
    ],
    "fetched by id afterwards": [_MADE, simple_commit("s", _BOTH), _GONE, UntilOffsets(1), fetch("s", _ASKED, 10)],
    "made anew": [
        _MADE,
        simple_commit("s", _BOTH),
        _GONE,
        UntilOffsets(1),
        _MADE,
        fetch("s", _ASKED),
        fetch("s", _ASKED, 10),
        _with_old_id(fetch("s", {"x": [0]}, 10)),
        _with_old_id(simple_commit("s", {("x", 0): 5}, 10)),
        simple_commit("s", _BOTH, 10),
        fetch("s", _ASKED, 10),
        fetch("s", v=10),
        _with_old_id(fetch("s", {"x": [0]}, 10)),
    ],
}


def scripts() -> Iterator[Script]:
    for name, steps in _TABLE.items():
        yield Script("4.6 deleted topics", name, steps)
