"""1.4 and 5.2: DescribeGroups, ListGroups, DeleteGroups, FindCoordinator, in all versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proving.conformance.scripts.groups import completing, empty, enter, preparing, reserved, stable
from proving.conformance.steps import (
    Generation,
    GroupId,
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

_G, _H, _NONE = GroupId("g"), GroupId("h"), GroupId("none")
_LIVES: dict[str, list[Step]] = {
    "a group of offsets": [simple_commit("s")],
    "Empty": empty(),
    "a reserved id": reserved(),
    "PreparingRebalance": preparing("a", "b"),
    "CompletingRebalance": completing("a", "B"),
    "Stable": stable("a", "B"),
    "another type": [
        *enter("a", protocol_type="connect", protocols=("x",)),
        sync("a", protocol_type="connect", protocol_name="x", assign={"a": "work"}),
    ],
}


def scripts() -> Iterator[Script]:
    yield from _describe()
    yield from _list()
    yield from _delete()
    yield from _find()


def _script(section: str, name: str, steps: Sequence[Step]) -> Script:
    return Script(section, name, steps)


def _describe() -> Iterator[Script]:
    for v in range(7):
        for state, life in _LIVES.items():
            yield _script("1.4 admin", f"describe v{v}: {state}", [*life, describe("o", v, operations=True)])
        several: list[str | GroupId] = [_G, _NONE, _H, _G, ""]
        yield _script(
            "1.4 admin",
            f"describe v{v}: several",
            [*stable("a"), simple_commit("s", group=_H), describe("o", v, groups=several)],
        )
        yield _script("1.4 admin", f"describe v{v}: none", [describe("o", v, groups=[])])
        yield _script("1.4 admin", f"describe v{v}: unknown", [describe("o", v, groups=[_NONE], operations=True)])


def _list() -> Iterator[Script]:
    for v in range(6):
        for state, life in _LIVES.items():
            yield _script("1.4 admin", f"list v{v}: {state}", [*life, list_groups("o", v)])
    filters: dict[str, tuple[list[str], list[str]]] = {
        "Stable": (["Stable"], []),
        "stable": (["stable"], []),
        "with blanks": ([" Stable "], []),
        "Empty or stable": (["Empty", "STABLE"], []),
        "an unknown state": (["Nowhere"], []),
        "an unknown state and Stable": (["Nowhere", "Stable"], []),
        "Dead": (["Dead"], []),
        "an empty state": ([""], []),
        "a state of the newer protocol": (["Assigning"], []),
        "classic": ([], ["classic"]),
        "CLASSIC": ([], ["CLASSIC"]),
        "type with blanks": ([], [" classic "]),
        "consumer": ([], ["consumer"]),
        "an unknown type": ([], ["nothing"]),
        "an unknown type and classic": ([], ["nothing", "classic"]),
        "an empty type": ([], [""]),
        "both": (["Stable"], ["classic"]),
        "both, and no match": (["Stable"], ["consumer"]),
    }
    life = [*stable("a"), simple_commit("s", group=_H)]
    for name, (states, types) in filters.items():
        yield _script(
            "1.4 admin", f"list v5, filtered: {name}", [*life, list_groups("o", 5, states=states, types=types)]
        )
        if not types:
            yield _script("1.4 admin", f"list v4, filtered: {name}", [*life, list_groups("o", 4, states=states)])


def _delete() -> Iterator[Script]:
    for v in range(3):
        for state, life in _LIVES.items():
            steps = [*life, delete_groups("o", v), describe("o"), heartbeat("a"), join("a")]
            yield _script("1.4 admin", f"delete v{v}: {state}", steps)
        mixed: list[str | GroupId] = [_G, _NONE, _H, _G, ""]
        life = [
            *stable("a"),
            simple_commit("s", group=_H),
            delete_groups("o", v, groups=mixed),
            fetch("o", groups=[_H]),
        ]
        yield _script("1.4 admin", f"delete v{v}: several", life)
        yield _script("1.4 admin", f"delete v{v}: none", [delete_groups("o", v, groups=[])])
        yield _script("1.4 admin", f"delete v{v}: twice", [*empty(), delete_groups("o", v), delete_groups("o", v)])
    yield _script(
        "1.4 admin",
        "a member of a deleted group comes back",
        [
            *stable("a"),
            leave("a"),
            delete_groups("o"),
            join("a"),
            commit("a"),
            *enter("a"),
            heartbeat("a", generation=Generation(1)),
        ],
    )


def _find() -> Iterator[Script]:
    for v in range(7):
        yield _script("5.2 FindCoordinator", f"a group, v{v}", [find("o", v)])
        yield _script("5.2 FindCoordinator", f"no key, v{v}", [find("o", v, keys=[""])])
        if v >= 1:
            yield _script("5.2 FindCoordinator", f"an unknown type, v{v}", [find("o", v, key_type=9)])
            yield _script("5.2 FindCoordinator", f"a negative type, v{v}", [find("o", v, key_type=-1)])
            yield _script("5.2 FindCoordinator", f"share, v{v}", [find("o", v, key_type=2)])
        if v >= 4:
            yield _script("5.2 FindCoordinator", f"several, v{v}", [find("o", v, keys=[_G, _H, _G])])
            yield _script("5.2 FindCoordinator", f"none, v{v}", [find("o", v, keys=[])])
