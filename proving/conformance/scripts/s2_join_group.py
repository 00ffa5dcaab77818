"""2: JoinGroup. Validation order, protocols, rejoins, leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.scripts.groups import (
    OTHER,
    Section,
    Table,
    assigned,
    completing,
    empty,
    enter,
    stable,
    synced,
)
from proving.conformance.steps import (
    Drop,
    Generation,
    GroupId,
    Id,
    Script,
    Step,
    commit,
    delete_groups,
    describe,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
    subscription,
    sync,
)

_SECTION = Section("2 JoinGroup")
_script, _scripts = _SECTION.script, _SECTION.scripts

_VERSIONS = range(10)
_BOUNDARIES = (0, 4, 5, 6, 7, 9)
# Each breaks several rules at once: the first rule decides. With a group or without.
_BROKEN: dict[str, dict[str, Any]] = {
    "no group id, no protocols, short session": {"group": "", "protocols": (), "session": 0},
    "no group id": {"group": "", "member_id": "nobody"},
    "session too short, nobody, no protocols": {"session": 5999, "member_id": "nobody", "protocols": ()},
    "session too long, nobody": {"session": 1_800_001, "member_id": "nobody"},
    "session at its lower bound": {"session": 6000, "member_id": "nobody"},
    "session at its upper bound": {"session": 1_800_000, "member_id": "nobody"},
    "nobody, no protocols": {"member_id": "nobody", "protocols": ()},
    "no protocols": {"member_id": "", "protocols": ()},
    "no protocol type": {"member_id": "", "protocol_type": ""},
    "another protocol type": {"member_id": "", "protocol_type": "connect"},
    "no common protocol": {"member_id": "", "protocols": ("sticky",)},
    "another protocol type of nobody": {"member_id": "nobody", "protocol_type": "connect"},
    "negative rebalance timeout": {"member_id": "", "rebalance": -1},
    "the same protocol twice": {"member_id": "", "protocols": ("range", "range")},
    "an empty instance id": {"member_id": "", "instance": ""},
    "an id that is none": {"member_id": "a-b-c"},
}


def scripts() -> Iterator[Script]:
    yield from _validation()
    yield from _protocols()
    yield from _rejoins()
    yield from _scripts(_GENERATIONS)
    yield from _scripts(_PENDING)
    yield from _scripts(_ODD)


def _validation() -> Iterator[Script]:
    for name, broken in _BROKEN.items():
        for v in _BOUNDARIES:
            yield _script(f"{name}, v{v}, new group", join("c", v, **broken), describe("o"))
            yield _script(f"{name}, v{v}, live group", *stable("a"), join("c", v, **broken), heartbeat("a"))
    for name in ("no protocols", "no protocol type", "another protocol type", "no common protocol"):
        broken = {**_BROKEN[name], "member_id": None}
        yield _script(f"a member: {name}", *stable("a", "b"), join("b", **broken), heartbeat("b"), join("a"), join("b"))
        yield _script(f"back with an id: {name}", *stable("a"), join("b", member_id=""), join("b", **broken), join("b"))
        yield _script(f"Empty: {name}", *empty(), join("b", **{**broken, "member_id": ""}), join("b"))


def _protocols() -> Iterator[Script]:
    yield _script(
        "an Empty group changes its type",
        *empty(),
        *enter("b", protocol_type="connect", protocols=("default",)),
        describe("o"),
        sync("b", protocol_type="connect", protocol_name="default", assign=assigned("b")),
        describe("o"),
        list_groups("o"),
    )
    yield _script("votes: two against one", *_voting(("range", "sticky"), ("sticky", "range"), ("sticky", "range")))
    yield _script("votes: what all have", *_voting(("range", "sticky"), ("sticky",), ("x", "range", "sticky")))
    yield _script("votes: order of each", *_voting(("x", "range", "sticky"), ("range", "x"), ("y", "range", "x")))
    yield _script(
        "the last that all had goes",
        *completing("a", "b", protocols=("range", "sticky")),
        *synced("a", "b"),
        join("b", protocols=("sticky",)),
        join("a", protocols=("range",)),
        join("a", protocols=("sticky", "range")),
        sync("a", protocol_name="sticky", assign=assigned("a", "b")),
    )
    yield _script(
        "metadata of the protocol that was chosen",
        *enter("a", protocols=(("range", b"r"), ("sticky", b"s"))),
        *enter("b", protocols=(("sticky", b"S"), ("other", b"o"))),
        join("a", protocols=(("range", b"r"), ("sticky", b"s"))),
        sync("b", protocol_name="sticky"),
        sync("a", protocol_name="sticky", assign=assigned("a", "b")),
        describe("o"),
    )
    yield _script("metadata is empty", *enter("a", protocols=(("range", b""),)), *synced("a"), describe("o"))


def _voting(*lists: tuple[str, ...]) -> list[Step]:
    steps: list[Step] = []
    for who, protocols in zip("abc", lists, strict=True):
        steps += enter(who, protocols=protocols)
        steps += [join(one, protocols=lists["abc".index(one)]) for one in "abc"[: "abc".index(who)]]
    return [*steps, sync("a", protocol_name=None, v=4, assign=assigned("a", "b", "c")), describe("o")]


_REORDERED = (("sticky", b"s"), ("range", b"r"))
_BOTH = (("range", b"r"), ("sticky", b"s"))
_REJOINS: Table = {
    "a follower with protocols in another order": [
        *completing("a", "b", protocols=_BOTH),
        *synced("a", "b"),
        join("b", protocols=_REORDERED),
        join("a", protocols=_BOTH),
    ],
    "only timeouts differ": [*stable("a", "b"), join("b", session=7000, rebalance=9000), heartbeat("b")],
    "a follower's SyncGroup is parked when it rejoins": [
        *completing("a", "b"),
        sync("b"),
        join("b"),
        sync("a", assign=assigned("a", "b")),
    ],
    "a follower's SyncGroup is parked, other bytes": [
        *completing("a", "b"),
        sync("b"),
        join("b", protocols=OTHER),
        join("a"),
    ],
    "a reason is taken": [*enter("a", reason="to see what happens"), *synced("a"), join("a", reason="x" * 300)],
}


def _rejoins() -> Iterator[Script]:
    for v in _VERSIONS:
        yield _script(
            f"the leader of a Stable group, v{v}", *stable("a", "b"), join("a", v), join("b", v), *synced("a", "b")
        )
        yield _script(
            f"a follower with the same bytes, v{v}", *stable("a", "b"), join("b", v), sync("b"), heartbeat("a")
        )
        yield _script(
            f"a follower with other bytes, v{v}", *stable("a", "b"), join("b", v, protocols=OTHER), join("a", v)
        )
        yield _script(
            f"leader and follower in CompletingRebalance, v{v}", *completing("a", "b"), join("a", v), join("b", v)
        )
        yield _script(
            f"other bytes in CompletingRebalance, v{v}", *completing("a", "b"), sync("b"), join("a", v, protocols=OTHER)
        )
    yield from _scripts(_REJOINS)


_GENERATIONS: Table = {
    "each completed join is one more, also the one that leaves nobody": [
        *stable("a"),
        join("a"),
        *synced("a"),
        leave("a"),
        *enter("b"),
        heartbeat("b", generation=Generation(-1)),
        heartbeat("b", generation=Generation(1)),
        heartbeat("b"),
    ],
    "after deletion from the beginning": [*stable("a"), leave("a"), delete_groups("o"), *enter("b"), describe("o")],
    "after only offsets": [simple_commit("s"), *enter("a"), *synced("a"), describe("o"), leave("a"), describe("o")],
    "an old generation in each request": [
        *stable("a", "b"),
        join("a"),
        join("b", protocols=OTHER),
        sync("a", generation=Generation(-1)),
        heartbeat("b", generation=Generation(-1)),
        commit("b", generation=Generation(-1)),
        *synced("a", "b"),
        commit("b", generation=Generation(-1)),
        commit("b", generation=Generation(1)),
    ],
    "the leader has gone": [*stable("a", "b"), leave("a"), join("b"), *synced("b"), describe("o")],
    "the leader of three has gone": [*stable("a", "b", "c"), leave("a"), join("b"), join("c"), describe("o")],
    "the leader goes while all others wait": [
        *stable("a", "b", "c"),
        join("b", protocols=OTHER),
        join("c"),
        leave("a"),
    ],
    "three members": [
        *stable("a", "b", "c"),
        describe("o"),
        commit("c"),
        leave("b"),
        join("a"),
        join("c"),
        *synced("a", "c"),
    ],
}


_PENDING: Table = {
    "a reserved id holds up a rebalance": [*stable("a"), join("b", member_id=""), join("a"), heartbeat("a"), join("b")],
    "a reserved id that leaves": [*stable("a"), join("b", member_id=""), join("a"), leave("b")],
    "a reserved id is no member": [*stable("a"), join("b", member_id=""), heartbeat("b"), sync("b"), commit("b")],
    "a reserved id with an instance": [
        *stable("a"),
        join("b", member_id=""),
        join("b", instance="B", member_id=Id("b")),
        heartbeat("a"),
        join("b"),
    ],
    "two reserved ids": [
        join("a", member_id=""),
        join("a", member_id=""),
        join("a", member_id=Id("a", 1)),
        leave("a", member_id=Id("a", 2)),
    ],
    "reserved ids only, then deletion": [join("a", member_id=""), delete_groups("o"), join("a")],
    "a reserved id used twice": [join("a", member_id=""), join("a"), join("a"), *synced("a"), join("a")],
    "a reserved id in an older version": [join("a", member_id=""), join("a", 3), *synced("a")],
}


_ODD: Table = {
    "another group's id": [*stable("a"), join("a", group=GroupId("h")), *enter("b", group=GroupId("h")), join("b")],
    "a client that has gone while it waited": [
        *stable("a", "b"),
        join("b", protocols=OTHER),
        Drop("b"),
        join("a"),
        heartbeat("a"),
    ],
    "a new client that has gone while it waited": [
        *stable("a"),
        join("b", 3, member_id=""),
        Drop("b"),
        join("a"),
        describe("o"),
    ],
    "it reconnects and asks again": [
        *stable("a", "b"),
        join("b", protocols=OTHER),
        Drop("b"),
        join("b", protocols=OTHER),
        join("a"),
    ],
    "topics of other names": [
        *enter("a", protocols=(("range", subscription("none", "t")),)),
        *synced("a"),
        describe("o"),
    ],
    "a group id with blanks": [join("a", group=" "), join("a", group="a b/c"), simple_commit("s", group=" ")],
}
