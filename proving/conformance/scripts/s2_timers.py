"""2.8, 2.11, 3.2: the initial delay, sessions, rebalance timeouts. Every wait is for something to be seen.

Where it matters that something has not happened yet, another group is the clock: its first generation comes 2 s
(the initial delay) after it was begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.scripts.groups import OTHER, Section, Table, assigned, enter, synced
from proving.conformance.steps import (
    GroupId,
    Script,
    Step,
    Until,
    UntilAnswered,
    UntilGone,
    commit,
    describe,
    heartbeat,
    join,
    leave,
    sync,
)

_SECTION = Section("2.11 timers", world="timed", brisk_ms=1200)
_script, _scripts = _SECTION.script, _SECTION.scripts

_SHORT = 3000
_DELAY = 2000


def scripts() -> Iterator[Script]:
    yield from _initial_delay()
    yield from _scripts(_SESSIONS)
    yield from _scripts(_JOIN_TIMEOUTS)
    yield from _scripts(_SYNC_TIMEOUTS)
    yield from _scripts(_PENDING)


def _first(*members: str, **more: Any) -> list[Step]:
    """The first generation of these, without a sync. Their rebalance timeout leaves no room for a longer delay."""
    steps = [step for who in members for step in enter(who, **{"rebalance": _DELAY, **more})]
    return [*steps, Until("CompletingRebalance")]


def _live(*members: str, **more: Any) -> list[Step]:
    return [*_first(*members, **more), *synced(*members)]


def _clock(name: str) -> list[Step]:
    return [*enter("clock", group=GroupId(name), rebalance=_DELAY), Until("CompletingRebalance", name)]


_BEGUN = enter("clock", group=GroupId("k"), rebalance=_DELAY)
_UNTIL = Until("CompletingRebalance", "k")
_INITIAL_DELAY: Table = {
    "two come in time": [*_first("a", "b"), *synced("a", "b")],
    "a newcomer extends it": [*enter("a"), *enter("b"), *_BEGUN, _UNTIL, UntilAnswered("a"), describe("o")],
    "but not beyond the first one's rebalance timeout": [*enter("a", rebalance=_DELAY), *enter("b"), *_BEGUN, _UNTIL],
    "nobody extends it": [*enter("a"), *_BEGUN, _UNTIL],
    "who asks again does not extend it": [*enter("a"), join("a"), *_BEGUN, _UNTIL],
    "a static member that is back does not extend it": [*enter("A"), join("A", member_id=""), *_BEGUN, _UNTIL],
    "it does not end when all are there": [*enter("a"), *enter("b"), describe("o"), heartbeat("b")],
    "one leaves meanwhile": [
        *enter("a", rebalance=_DELAY),
        *enter("b"),
        leave("b"),
        describe("o"),
        Until("CompletingRebalance"),
    ],
    "the only one leaves meanwhile": [
        *enter("a", rebalance=_DELAY),
        leave("a"),
        describe("o"),
        Until("Empty"),
        *enter("b"),
        describe("o"),
    ],
    "the first leaves meanwhile": [
        *enter("a", rebalance=_DELAY),
        *enter("b"),
        leave("a"),
        Until("CompletingRebalance"),
        *synced("b"),
    ],
    "requests meanwhile": [
        *enter("a"),
        sync("a", generation=0),
        heartbeat("a", generation=0),
        commit("a", generation=0),
        commit("s", member_id="", generation=-1),
    ],
    "a reserved id does not hold it up": [
        join("b", member_id=""),
        *enter("a", rebalance=_DELAY),
        Until("CompletingRebalance"),
        join("b"),
    ],
    "a group that was Empty waits again": [
        *_live("a"),
        leave("a"),
        *enter("b", rebalance=_DELAY),
        describe("o"),
        Until("CompletingRebalance"),
    ],
}


def _initial_delay() -> Iterator[Script]:
    for v in (0, 3, 4, 9):
        yield _script(
            f"the first waits for others, v{v}",
            *enter("a", v, rebalance=_DELAY),
            describe("o"),
            heartbeat("a"),
            Until("CompletingRebalance"),
        )
    yield from _scripts(_INITIAL_DELAY)


_BACK = join("A", member_id="", session=_SHORT)
_SESSIONS: Table = {
    "a silent follower": [
        *_live("a"),
        *enter("b", session=_SHORT),
        join("a"),
        *synced("a", "b"),
        UntilGone("b"),
        heartbeat("a"),
        heartbeat("b"),
        join("a"),
    ],
    "a silent leader": [*_live("a", session=_SHORT), UntilGone("a"), Until("Empty"), heartbeat("a")],
    "a silent static member": [*_live("A", session=_SHORT), Until("Empty"), heartbeat("A"), join("A", member_id="")],
    "the leader before it has synced": [
        *_live("a", session=_SHORT),
        *enter("b"),
        join("a", session=_SHORT),
        sync("b"),
        UntilAnswered("b"),
        describe("o"),
        join("b"),
    ],
    "a member that waits for the join does not expire": [
        *_live("a"),
        *enter("b", session=500),
        *_clock("k"),
        describe("o"),
        join("a"),
        *synced("a", "b"),
    ],
    "a member that waits for the sync does not expire": [
        *_live("a"),
        *enter("b", session=1500),
        join("a"),
        sync("b"),
        *_clock("k"),
        sync("a", assign=assigned("a", "b")),
        UntilGone("b"),
    ],
    "a heartbeat keeps it alive": [
        *_live("a", session=_SHORT),
        *_clock("k"),
        heartbeat("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a commit keeps it alive": [
        *_live("a", session=_SHORT),
        *_clock("k"),
        commit("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a commit that is refused does not": [
        *_live("a", session=_SHORT),
        *_clock("k"),
        commit("a", generation=9),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a heartbeat that is refused does not": [
        *_live("a", session=_SHORT),
        *_clock("k"),
        heartbeat("a", generation=9),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a sync in Stable does not": [
        *_live("a", session=_SHORT),
        *_clock("k"),
        sync("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a heartbeat in PreparingRebalance does": [
        *_live("a", session=_SHORT),
        *enter("b", rebalance=10_000),
        *_clock("k"),
        heartbeat("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    ],
    "a new session timeout with the next join": [
        *_live("a"),
        *enter("b"),
        join("a"),
        *synced("a", "b"),
        join("b", protocols=OTHER, session=_SHORT),
        join("a"),
        *synced("a", "b"),
        UntilGone("b"),
    ],
    "the session of a static member that is _BACK": [*_live("A"), _BACK, sync("A"), heartbeat("A"), Until("Empty")],
}


_JOIN_TIMEOUTS: Table = {
    "who does not rejoin is removed": [
        *_live("a"),
        *enter("b", rebalance=_SHORT),
        heartbeat("a"),
        UntilAnswered("b"),
        describe("o"),
        heartbeat("a"),
    ],
    "the longest rebalance timeout counts": [
        *_live("a", rebalance=500),
        *enter("b", rebalance=_SHORT),
        *_clock("k"),
        describe("o"),
        UntilAnswered("b"),
    ],
    "up to v0 the session timeout counts": [
        *enter("a", 0, session=_DELAY),
        Until("CompletingRebalance"),
        *synced("a"),
        *enter("b", 0, session=_SHORT),
        UntilAnswered("b"),
        describe("o"),
    ],
    "a static member that does not rejoin stays": [
        *_live("A"),
        *enter("b", rebalance=_SHORT),
        UntilAnswered("b"),
        describe("o"),
        sync("b", assign=assigned("A", "b")),
        sync("A"),
        heartbeat("A"),
    ],
    "only absent static members: until their sessions end": [
        *_live("A", session=7000),
        *enter("b", rebalance=_DELAY),
        leave("b"),
        *_clock("k"),
        describe("o"),
        Until("Empty"),
        *enter("c", rebalance=_DELAY),
        Until("CompletingRebalance"),
    ],
    "an old generation commits until the end": [
        *_live("a"),
        *enter("b", rebalance=_SHORT),
        commit("a"),
        UntilAnswered("b"),
        commit("a"),
    ],
}


_SYNC_TIMEOUTS: Table = {
    "a leader that never syncs": [
        *_first("a"),
        *enter("b", rebalance=_SHORT),
        join("a", rebalance=_SHORT),
        sync("b"),
        UntilAnswered("b"),
        describe("o"),
        heartbeat("a"),
        join("b"),
    ],
    "nobody syncs": [*_first("a", rebalance=_SHORT), Until("Empty"), heartbeat("a"), *enter("b")],
    "a follower that never syncs": [
        *_first("a"),
        *enter("b", rebalance=_SHORT),
        join("a", rebalance=_SHORT),
        sync("a", assign=assigned("a", "b")),
        UntilGone("b"),
        describe("o"),
        heartbeat("a"),
        heartbeat("b"),
    ],
    "a static one that never syncs": [
        *_first("A"),
        *enter("B", rebalance=_SHORT),
        join("A", rebalance=_SHORT),
        sync("A", assign=assigned("A", "B")),
        UntilGone("B"),
        heartbeat("A"),
    ],
    "an absent static member must sync too": [
        *_live("A"),
        *enter("b", rebalance=_SHORT),
        UntilAnswered("b"),
        sync("b", assign=assigned("A", "b")),
        UntilGone("A"),
        heartbeat("b"),
    ],
    "all have synced: no timeout": [*_live("a"), *_clock("k"), *_clock("l"), heartbeat("a")],
}


_PENDING: Table = {
    "a reserved id that expires": [
        *_live("a"),
        join("b", member_id="", session=_SHORT),
        join("a", rebalance=20_000),
        describe("o"),
        UntilAnswered("a"),
        join("b", session=_SHORT),
    ],
    # It expires later than the script may take up to there, and before the clock's initial delay ends.
    "a reserved id that expires ends the initial delay": [
        join("b", member_id="", session=1300),
        *enter("a"),
        *enter("clock", group=GroupId("k"), rebalance=_DELAY),
        UntilAnswered("a"),
        describe("o", groups=[GroupId("k")]),
    ],
    "the join timer does not wait for a reserved id": [
        *_live("a"),
        join("b", member_id=""),
        join("a", rebalance=_SHORT),
        UntilAnswered("a"),
        join("b"),
        join("a"),
    ],
    "a reserved id expires in an Empty group": [
        join("a", member_id="", session=500),
        *_clock("k"),
        join("a"),
        describe("o"),
    ],
}
