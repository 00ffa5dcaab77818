"""2.3: group.max.size, here 2; and other limits that are set low in the world of timers."""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.proving.conformance.scripts.groups import OTHER, assigned, enter, synced
from equipoise.proving.conformance.steps import (
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

_DELAY = 2000


def scripts() -> Iterator[Script]:
    full = [*_begun("a", "b"), Until("CompletingRebalance"), *synced("a", "b")]
    for v in (0, 3, 4, 5, 9):
        yield _script(f"a third member, v{v}", *full, join("c", v, member_id=""), heartbeat("a"))
        yield _script(f"nobody, v{v}", *full, join("c", v, member_id="nobody"), heartbeat("a"))
        yield _script(
            f"a third one in the initial delay, v{v}", *_begun("a", "b"), join("c", v, member_id=""), describe("o")
        )
        yield _script(
            f"a third one in CompletingRebalance, v{v}", *full[:-2], join("c", v, member_id=""), heartbeat("b")
        )
        yield _script(
            f"a third one while one waits, v{v}",
            *full,
            join("b", protocols=OTHER),
            join("c", v, member_id=""),
            join("c", v),
            join("a"),
        )
    yield _script("a third, static", *full, join("C", member_id=""), heartbeat("a"))
    yield _script("a third, of another type", *full, join("c", member_id="", protocol_type="connect"))
    yield _script("members rejoin", *full, join("b", protocols=OTHER), join("a"), join("b"))
    yield _script("one leaves, one comes", *full, leave("b"), *enter("c"), join("a"), describe("o"))
    yield _script(
        "a static member that is back",
        *_begun("A", "B"),
        Until("CompletingRebalance"),
        *synced("A", "B"),
        join("B", member_id=""),
        heartbeat("A"),
    )
    yield _script(
        "a static member that is back in a rebalance",
        *_begun("A", "B"),
        Until("CompletingRebalance"),
        *synced("A", "B"),
        join("B", protocols=OTHER),
        join("B", member_id="", protocols=OTHER),
        join("A"),
    )
    reserved = [join(who, member_id="", rebalance=_DELAY) for who in ("a", "b", "c")]
    joined = [join(who, rebalance=_DELAY) for who in ("a", "b", "c")]
    yield _script("three reserved ids", *reserved, *joined, Until("CompletingRebalance"), join("c", rebalance=_DELAY))
    yield _script(
        "a reserved id finds the group full",
        *_begun("a"),
        Until("CompletingRebalance"),
        *synced("a"),
        *reserved[1:],
        joined[1],
        join("a", rebalance=_DELAY),
        joined[2],
        join("c", member_id="nobody"),
    )
    yield _script(
        "an expelled rejoiner",
        *full,
        join("b", protocols=OTHER, rebalance=_DELAY),
        *enter("c", rebalance=_DELAY),
        join("a", rebalance=_DELAY),
        UntilAnswered("b"),
        describe("o"),
        sync("b", assign=assigned("b")),
    )
    for length in (10, 11):
        yield _script(
            f"metadata of {length}",
            simple_commit("s"),
            simple_commit("s", {("t", 1): 2}, metadata="x" * length),
            fetch("s"),
        )
    for session in (99, 100, 1_000_000, 1_000_001):
        yield _script(f"a session of {session} ms", join("a", member_id="nobody", session=session))


def _script(name: str, *steps: Step) -> Script:
    return Script("2.3 limits", name, steps, world="timed", brisk_ms=1200)


def _begun(*members: str) -> list[Step]:
    return [step for who in members for step in enter(who, rebalance=_DELAY)]
