"""2.8, 2.11, 3.2: the initial delay, sessions, rebalance timeouts. Every wait is for something to be seen.

Where it matters that something has not happened yet, another group is the clock: its first generation comes 2 s
(the initial delay) after it was begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from equipoise.proving.conformance.scripts.groups import OTHER, assigned, enter, synced
from equipoise.proving.conformance.steps import (
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

_BRISK_MS = 1200
_SHORT = 3000
_DELAY = 2000


def scripts() -> Iterator[Script]:
    yield from _initial_delay()
    yield from _sessions()
    yield from _join_timeouts()
    yield from _sync_timeouts()
    yield from _pending()


def _script(name: str, *steps: Step) -> Script:
    return Script("2.11 timers", name, steps, world="timed", brisk_ms=_BRISK_MS)


def _first(*members: str, **more: Any) -> list[Step]:
    """The first generation of these, without a sync. Their rebalance timeout leaves no room for a longer delay."""
    steps = [step for who in members for step in enter(who, **{"rebalance": _DELAY, **more})]
    return [*steps, Until("CompletingRebalance")]


def _live(*members: str, **more: Any) -> list[Step]:
    return [*_first(*members, **more), *synced(*members)]


def _clock(name: str) -> list[Step]:
    return [*enter("clock", group=GroupId(name), rebalance=_DELAY), Until("CompletingRebalance", name)]


def _initial_delay() -> Iterator[Script]:
    begun = enter("clock", group=GroupId("k"), rebalance=_DELAY)
    until = Until("CompletingRebalance", "k")
    for v in (0, 3, 4, 9):
        yield _script(
            f"the first waits for others, v{v}",
            *enter("a", v, rebalance=_DELAY),
            describe("o"),
            heartbeat("a"),
            Until("CompletingRebalance"),
        )
    yield _script("two come in time", *_first("a", "b"), *synced("a", "b"))
    yield _script("a newcomer extends it", *enter("a"), *enter("b"), *begun, until, UntilAnswered("a"), describe("o"))
    yield _script(
        "but not beyond the first one's rebalance timeout", *enter("a", rebalance=_DELAY), *enter("b"), *begun, until
    )
    yield _script("nobody extends it", *enter("a"), *begun, until)
    yield _script("who asks again does not extend it", *enter("a"), join("a"), *begun, until)
    yield _script(
        "a static member that is back does not extend it", *enter("A"), join("A", member_id=""), *begun, until
    )
    yield _script("it does not end when all are there", *enter("a"), *enter("b"), describe("o"), heartbeat("b"))
    yield _script(
        "one leaves meanwhile",
        *enter("a", rebalance=_DELAY),
        *enter("b"),
        leave("b"),
        describe("o"),
        Until("CompletingRebalance"),
    )
    yield _script(
        "the only one leaves meanwhile",
        *enter("a", rebalance=_DELAY),
        leave("a"),
        describe("o"),
        Until("Empty"),
        *enter("b"),
        describe("o"),
    )
    yield _script(
        "the first leaves meanwhile",
        *enter("a", rebalance=_DELAY),
        *enter("b"),
        leave("a"),
        Until("CompletingRebalance"),
        *synced("b"),
    )
    yield _script(
        "requests meanwhile",
        *enter("a"),
        sync("a", generation=0),
        heartbeat("a", generation=0),
        commit("a", generation=0),
        commit("s", member_id="", generation=-1),
    )
    yield _script(
        "a reserved id does not hold it up",
        join("b", member_id=""),
        *enter("a", rebalance=_DELAY),
        Until("CompletingRebalance"),
        join("b"),
    )
    yield _script(
        "a group that was Empty waits again",
        *_live("a"),
        leave("a"),
        *enter("b", rebalance=_DELAY),
        describe("o"),
        Until("CompletingRebalance"),
    )


def _sessions() -> Iterator[Script]:
    yield _script(
        "a silent follower",
        *_live("a"),
        *enter("b", session=_SHORT),
        join("a"),
        *synced("a", "b"),
        UntilGone("b"),
        heartbeat("a"),
        heartbeat("b"),
        join("a"),
    )
    yield _script("a silent leader", *_live("a", session=_SHORT), UntilGone("a"), Until("Empty"), heartbeat("a"))
    yield _script(
        "a silent static member", *_live("A", session=_SHORT), Until("Empty"), heartbeat("A"), join("A", member_id="")
    )
    yield _script(
        "the leader before it has synced",
        *_live("a", session=_SHORT),
        *enter("b"),
        join("a", session=_SHORT),
        sync("b"),
        UntilAnswered("b"),
        describe("o"),
        join("b"),
    )
    yield _script(
        "a member that waits for the join does not expire",
        *_live("a"),
        *enter("b", session=500),
        *_clock("k"),
        describe("o"),
        join("a"),
        *synced("a", "b"),
    )
    yield _script(
        "a member that waits for the sync does not expire",
        *_live("a"),
        *enter("b", session=800),
        join("a"),
        sync("b"),
        *_clock("k"),
        sync("a", assign=assigned("a", "b")),
        UntilGone("b"),
    )
    yield _script(
        "a heartbeat keeps it alive",
        *_live("a", session=_SHORT),
        *_clock("k"),
        heartbeat("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a commit keeps it alive",
        *_live("a", session=_SHORT),
        *_clock("k"),
        commit("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a commit that is refused does not",
        *_live("a", session=_SHORT),
        *_clock("k"),
        commit("a", generation=9),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a heartbeat that is refused does not",
        *_live("a", session=_SHORT),
        *_clock("k"),
        heartbeat("a", generation=9),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a sync in Stable does not",
        *_live("a", session=_SHORT),
        *_clock("k"),
        sync("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a heartbeat in PreparingRebalance does",
        *_live("a", session=_SHORT),
        *enter("b", rebalance=10_000),
        *_clock("k"),
        heartbeat("a"),
        *_clock("l"),
        heartbeat("a"),
        describe("o"),
    )
    yield _script(
        "a new session timeout with the next join",
        *_live("a"),
        *enter("b"),
        join("a"),
        *synced("a", "b"),
        join("b", protocols=OTHER, session=_SHORT),
        join("a"),
        *synced("a", "b"),
        UntilGone("b"),
    )
    back = join("A", member_id="", session=_SHORT)
    yield _script(
        "the session of a static member that is back", *_live("A"), back, sync("A"), heartbeat("A"), Until("Empty")
    )


def _join_timeouts() -> Iterator[Script]:
    yield _script(
        "who does not rejoin is removed",
        *_live("a"),
        *enter("b", rebalance=_SHORT),
        heartbeat("a"),
        UntilAnswered("b"),
        describe("o"),
        heartbeat("a"),
    )
    yield _script(
        "the longest rebalance timeout counts",
        *_live("a", rebalance=500),
        *enter("b", rebalance=_SHORT),
        *_clock("k"),
        describe("o"),
        UntilAnswered("b"),
    )
    yield _script(
        "up to v0 the session timeout counts",
        *enter("a", 0, session=_DELAY),
        Until("CompletingRebalance"),
        *synced("a"),
        *enter("b", 0, session=_SHORT),
        UntilAnswered("b"),
        describe("o"),
    )
    yield _script(
        "a static member that does not rejoin stays",
        *_live("A"),
        *enter("b", rebalance=_SHORT),
        UntilAnswered("b"),
        describe("o"),
        sync("b", assign=assigned("A", "b")),
        sync("A"),
        heartbeat("A"),
    )
    yield _script(
        "only absent static members: until their sessions end",
        *_live("A", session=7000),
        *enter("b", rebalance=_DELAY),
        leave("b"),
        *_clock("k"),
        describe("o"),
        Until("Empty"),
        *enter("c", rebalance=_DELAY),
        Until("CompletingRebalance"),
    )
    yield _script(
        "an old generation commits until the end",
        *_live("a"),
        *enter("b", rebalance=_SHORT),
        commit("a"),
        UntilAnswered("b"),
        commit("a"),
    )


def _sync_timeouts() -> Iterator[Script]:
    yield _script(
        "a leader that never syncs",
        *_first("a"),
        *enter("b", rebalance=_SHORT),
        join("a", rebalance=_SHORT),
        sync("b"),
        UntilAnswered("b"),
        describe("o"),
        heartbeat("a"),
        join("b"),
    )
    yield _script("nobody syncs", *_first("a", rebalance=_SHORT), Until("Empty"), heartbeat("a"), *enter("b"))
    yield _script(
        "a follower that never syncs",
        *_first("a"),
        *enter("b", rebalance=_SHORT),
        join("a", rebalance=_SHORT),
        sync("a", assign=assigned("a", "b")),
        UntilGone("b"),
        describe("o"),
        heartbeat("a"),
        heartbeat("b"),
    )
    yield _script(
        "a static one that never syncs",
        *_first("A"),
        *enter("B", rebalance=_SHORT),
        join("A", rebalance=_SHORT),
        sync("A", assign=assigned("A", "B")),
        UntilGone("B"),
        heartbeat("A"),
    )
    yield _script(
        "an absent static member must sync too",
        *_live("A"),
        *enter("b", rebalance=_SHORT),
        UntilAnswered("b"),
        sync("b", assign=assigned("A", "b")),
        UntilGone("A"),
        heartbeat("b"),
    )
    yield _script("all have synced: no timeout", *_live("a"), *_clock("k"), *_clock("l"), heartbeat("a"))


def _pending() -> Iterator[Script]:
    yield _script(
        "a reserved id that expires",
        *_live("a"),
        join("b", member_id="", session=_SHORT),
        join("a", rebalance=20_000),
        describe("o"),
        UntilAnswered("a"),
        join("b", session=_SHORT),
    )
    yield _script(
        "a reserved id that expires ends the initial delay",
        join("b", member_id="", session=900),
        *enter("a"),
        *enter("clock", group=GroupId("k"), rebalance=_DELAY),
        UntilAnswered("a"),
        describe("o", groups=[GroupId("k")]),
    )
    yield _script(
        "the join timer does not wait for a reserved id",
        *_live("a"),
        join("b", member_id=""),
        join("a", rebalance=_SHORT),
        UntilAnswered("a"),
        join("b"),
        join("a"),
    )
    yield _script(
        "a reserved id expires in an Empty group",
        join("a", member_id="", session=500),
        *_clock("k"),
        join("a"),
        describe("o"),
    )
