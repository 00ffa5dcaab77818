"""3: SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import (
    OTHER,
    Section,
    Table,
    assigned,
    completing,
    enter,
    preparing,
    stable,
    synced,
)
from proving.conformance.steps import (
    Drop,
    Id,
    Script,
    commit,
    describe,
    heartbeat,
    join,
    leave,
    sync,
)

_SECTION = Section("3 sync, heartbeat, leave")
_script, _scripts = _SECTION.script, _SECTION.scripts


def scripts() -> Iterator[Script]:
    for v in range(6):
        yield from _sync_in_version(v)
        yield from _leave_in_version(v)
    yield from _scripts(_SYNC)
    yield from _leave()
    yield from _heartbeat()


def _sync_in_version(v: int) -> Iterator[Script]:
    both = assigned("a", "b")
    yield _script(
        f"followers wait for the leader, v{v}",
        *completing("a", "b"),
        sync("b", v),
        sync("a", v, assign=both),
        sync("b", v),
    )
    yield _script(f"the leader first, v{v}", *completing("a", "b"), sync("a", v, assign=both), sync("b", v))
    yield _script(
        f"another protocol, v{v}",
        *completing("a"),
        sync("a", v, protocol_name="sticky", assign=assigned("a")),
        describe("o"),
    )
    yield _script(
        f"another type, v{v}",
        *completing("a"),
        sync("a", v, protocol_type="connect", assign=assigned("a")),
        describe("o"),
    )
    yield _script(
        f"no protocol name, v{v}",
        *completing("a"),
        sync("a", v, protocol_name=None, assign=assigned("a")),
        describe("o"),
    )
    yield _script(
        f"no protocol type, v{v}",
        *completing("a"),
        sync("a", v, protocol_type=None, assign=assigned("a")),
        describe("o"),
    )
    yield _script(f"sync without a group id, v{v}", sync("a", v, group=""), sync("a", v, group="", protocol_name=None))
    yield _script(
        f"another generation and another protocol, v{v}",
        *completing("a"),
        sync("a", v, generation=9, protocol_name="sticky"),
    )
    yield _script(
        f"another protocol in PreparingRebalance, v{v}", *preparing("a", "b"), sync("a", v, protocol_name="sticky")
    )
    yield _script(f"another protocol in Stable, v{v}", *stable("a"), sync("a", v, protocol_name="sticky"))


_SYNC: Table = {
    "some are not assigned": [*completing("a", "b"), sync("b"), sync("a", assign={"a": "all"}), describe("o")],
    "nobody is assigned": [*completing("a"), sync("a"), describe("o")],
    "strangers are assigned": [*completing("a"), sync("a", assign={"a": "1", "z": "2"}), describe("o")],
    "a member is assigned twice: by its newest entry": [
        *completing("a"),
        sync("a", assign={"a": "1"}),
        sync("a", assign={"a": "2"}),
        describe("o"),
    ],
    "a follower's assignments do not count": [
        *completing("a", "b"),
        sync("b", assign={"b": "all"}),
        sync("a", assign=assigned("a", "b")),
    ],
    "the leader assigns again in Stable": [
        *stable("a", "b"),
        sync("a", assign={"a": "other"}),
        sync("b"),
        describe("o"),
    ],
    "a newcomer ends the wait": [*completing("a", "b"), sync("b"), *enter("c"), join("a"), join("b")],
    "a member that goes ends the wait": [*completing("a", "b", "c"), sync("b"), leave("c"), join("a"), join("b")],
    "the leader goes": [*completing("a", "b"), sync("b"), leave("a"), join("b"), *synced("b")],
    "who waits goes": [*completing("a", "b"), sync("b"), leave("b"), join("a"), *synced("a")],
    "asked twice": [*completing("a", "b"), sync("b"), sync("b"), sync("a", assign=assigned("a", "b"))],
    "the client that waited has gone": [
        *completing("a", "b"),
        sync("b"),
        Drop("b"),
        sync("a", assign=assigned("a", "b")),
        sync("b"),
    ],
    "assignments go when the next rebalance is overtaken": [
        *stable("a", "b"),
        join("a"),
        join("b"),
        describe("o"),
        join("b", protocols=OTHER),
        describe("o"),
        sync("a"),
    ],
    "instance ids are checked": [
        *completing("A", "B"),
        sync("A", instance="B", member_id=Id("A")),
        sync("A", instance="X", member_id=Id("A")),
    ],
}


def _leave_in_version(v: int) -> Iterator[Script]:
    yield _script(f"the last one, v{v}", *stable("a"), leave("a", v), describe("o"), heartbeat("a"))
    yield _script(f"one of two, v{v}", *stable("a", "b"), leave("b", v), heartbeat("a"), join("a"))
    yield _script(f"twice, v{v}", *stable("a", "b"), leave("b", v), leave("b", v))
    yield _script(f"leave without a group id, v{v}", leave("a", v, group="", member_id="nobody"))
    yield _script(
        f"while its own join waits, v{v}", *stable("a", "b"), join("b", protocols=OTHER), leave("b", v), heartbeat("a")
    )
    yield _script(f"while another's join waits, v{v}", *stable("a", "b"), join("b", protocols=OTHER), leave("a", v))
    yield _script(
        f"a static member without its instance, v{v}",
        *stable("A", "b"),
        leave("A", v, instance=None, member_id=Id("A")),
        heartbeat("b"),
    )
    yield _script(f"with a reason, v{v}", *stable("a", "b"), leave("b", v, reason="it is late"))


def _leave() -> Iterator[Script]:
    for v in (3, 4, 5):
        yield _script(f"nobody at all, v{v}", *stable("a"), leave("o", v, members=[]), heartbeat("a"))
        yield _script(f"nobody at all of no group, v{v}", leave("o", v, members=[]))
        yield _script(
            f"one twice in one request, v{v}",
            *stable("a", "b"),
            leave("o", v, members=[(Id("b"), None), (Id("b"), None)]),
        )
        yield _script(
            f"a mixed bag, v{v}",
            *stable("A", "b"),
            join("c", member_id=""),
            leave(
                "o", v, members=[("", "A"), ("", "X"), ("", None), (Id("c"), None), ("nobody", None), (Id("b"), "A")]
            ),
            heartbeat("b"),
        )
    yield _script("all at once", *stable("A", "B"), leave("o", members=[("", "A"), ("", "B")]), describe("o"))
    yield _script(
        "with the id and its instance", *stable("A", "b"), leave("o", members=[(Id("A"), "A")]), describe("o")
    )
    yield _script(
        "a reserved id with an instance", join("a", member_id=""), leave("o", members=[(Id("a"), "X")]), join("a")
    )
    yield _script(
        "none of them is a member", *stable("a"), leave("o", members=[("x", None), ("", "Y")]), heartbeat("a")
    )


def _heartbeat() -> Iterator[Script]:
    for v in range(5):
        yield _script(
            f"through a life, v{v}",
            heartbeat("a", v),
            *completing("a", "b"),
            heartbeat("a", v),
            heartbeat("b", v),
            *synced("a", "b"),
            heartbeat("b", v),
            join("b", protocols=OTHER),
            heartbeat("a", v),
            heartbeat("b", v),
            join("a"),
            heartbeat("a", v),
            leave("b"),
            heartbeat("b", v),
            leave("a"),
            heartbeat("a", v),
        )
        yield _script(f"heartbeat without a group id, v{v}", heartbeat("a", v, group=""))
        yield _script(
            f"another generation of nobody, v{v}", *stable("a"), heartbeat("a", v, member_id="nobody", generation=9)
        )
        yield _script(
            f"instance of another, v{v}",
            *stable("A", "B"),
            heartbeat("A", v, instance="B", member_id=Id("A")),
            heartbeat("A", v, instance="A", member_id="nobody"),
        )
    yield _script(
        "another generation in PreparingRebalance",
        *preparing("a", "b"),
        heartbeat("a", generation=9),
        commit("a", generation=9),
        sync("a", generation=9),
    )
