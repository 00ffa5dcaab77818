"""2.3: group.max.size, here 2; and other limits that are set low in the world of timers."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import OTHER, Section, Table, assigned, completing, enter, synced
from proving.conformance.steps import (
    Script,
    Step,
    Until,
    UntilAnswered,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    simple_commit,
    sync,
)

_SECTION = Section("2.3 limits", world="timed", brisk_ms=1200)
_script = _SECTION.script

_DELAY = 2000


def scripts() -> Iterator[Script]:
    for v in (0, 3, 4, 5, 9):
        yield from _in_version(v)
    for name, steps in _FULL_GROUPS.items():
        yield _script(name, *steps)
    for length in (10, 11):
        ask = simple_commit("s", {("t", 1): 2}, metadata="x" * length)
        yield _script(f"metadata of {length}", simple_commit("s"), ask, fetch("s"))
    for session in (99, 100, 1_000_000, 1_000_001):
        yield _script(f"a session of {session} ms", join("a", member_id="nobody", session=session))
    for name, steps in _LARGE.items():
        yield Script("2.3 limits", name, steps)


# The group's record is larger than max.message.bytes of its topic.
_TOO_LARGE = 1_100_000
_LARGE: Table = {
    "an assignment that cannot be written": [
        *completing("a", "b"),
        sync("b"),
        sync("a", assign={"a": "x" * _TOO_LARGE, "b": "y"}),
        describe("o"),
        heartbeat("a"),
        join("a"),
        join("b"),
        *synced("a", "b", generation=2),
    ],
}


def _begun(*members: str) -> list[Step]:
    return [step for who in members for step in enter(who, rebalance=_DELAY)]


_FULL = [*_begun("a", "b"), Until("CompletingRebalance"), *synced("a", "b")]
_FULL_STATIC = [*_begun("A", "B"), Until("CompletingRebalance"), *synced("A", "B")]
_TOLD = [join(who, member_id="", rebalance=_DELAY) for who in ("a", "b", "c")]
_BACK = [join(who, rebalance=_DELAY) for who in ("a", "b", "c")]
_LIVE = [*_begun("a"), Until("CompletingRebalance"), *synced("a")]
_FULL_GROUPS: Table = {
    "a third, static": [*_FULL, join("C", member_id=""), heartbeat("a")],
    "a third, of another type": [*_FULL, join("c", member_id="", protocol_type="connect")],
    "members rejoin": [*_FULL, join("b", protocols=OTHER), join("a"), join("b")],
    "one leaves, one comes": [*_FULL, leave("b"), *enter("c"), join("a"), describe("o")],
    "a static member that is back": [*_FULL_STATIC, join("B", member_id=""), heartbeat("A")],
    "a static member that is back in a rebalance": [
        *_FULL_STATIC,
        join("B", protocols=OTHER),
        join("B", member_id="", protocols=OTHER),
        join("A"),
    ],
    "three reserved ids": [*_TOLD, *_BACK, Until("CompletingRebalance"), _BACK[2]],
    "a reserved id finds the group full": [
        *_LIVE,
        *_TOLD[1:],
        _BACK[1],
        _BACK[0],
        _BACK[2],
        join("c", member_id="nobody"),
    ],
    "a newcomer in the place of a member that is not back": [
        *_FULL,
        join("b", protocols=OTHER, rebalance=_DELAY),
        *enter("c", rebalance=_DELAY),
        join("a", rebalance=_DELAY),
        UntilAnswered("b"),
        describe("o"),
        sync("b", assign=assigned("b")),
    ],
}


def _in_version(v: int) -> Iterator[Script]:
    newcomer = join("c", v, member_id="")
    yield _script(f"a third member, v{v}", *_FULL, newcomer, heartbeat("a"))
    yield _script(f"nobody, v{v}", *_FULL, join("c", v, member_id="nobody"), heartbeat("a"))
    yield _script(f"a third one in the initial delay, v{v}", *_begun("a", "b"), newcomer, describe("o"))
    yield _script(f"a third one in CompletingRebalance, v{v}", *_FULL[:-2], newcomer, heartbeat("b"))
    waiting = join("b", protocols=OTHER)
    yield _script(f"a third one while one waits, v{v}", *_FULL, waiting, newcomer, join("c", v), join("a"))
