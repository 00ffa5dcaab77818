"""4.6: when offsets and groups are forgotten. The sweep runs every 300 ms; retention is a minute, or as asked for.

Members enter with JoinGroup v3: an id that is only reserved would leave the group Empty, for the sweep to take.
"""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import Section, synced
from proving.conformance.steps import (
    GroupId,
    Script,
    Step,
    Until,
    UntilOffsets,
    commit,
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

_SECTION = Section("4.6 expiry", world="expiry")
_script = _SECTION.script

_ENTER = 3
_SOME = {("t", 0): 1, ("u", 0): 2}


def scripts() -> Iterator[Script]:
    for v in (2, 3, 4):
        yield from _asked_for(v)
    yield from _groups()
    yield from _by_the_minute()


def _sweeps(count: int = 3) -> list[Step]:
    """Between two of these every partition of `__consumer_offsets` has been swept."""
    steps: list[Step] = []
    for _ in range(count):
        steps += [simple_commit("s", v=2, retention=1, group=GroupId("k")), UntilOffsets(0, "k")]
    return steps


def _live(who: str = "a", **more: object) -> list[Step]:
    return [join(who, _ENTER, member_id="", **more), *synced(who)]  # type: ignore[arg-type]


def _asked_for(v: int) -> Iterator[Script]:
    def ask(offsets: dict[tuple[str, int], int], retention: int = 1) -> Step:
        return commit("a", offsets, v, retention=retention)

    yield _script(
        f"a group of offsets, v{v}",
        simple_commit("s", v=v, retention=1),
        Until("Dead"),
        fetch("s", {"t": [0]}),
        list_groups("o"),
    )
    yield _script(
        f"one of two, v{v}",
        simple_commit("s", {("t", 1): 3}, v),
        simple_commit("s", v=v, retention=1),
        UntilOffsets(1),
        describe("o"),
    )
    yield _script(
        f"a live group keeps what it subscribes to, v{v}", *_live(), ask(_SOME), UntilOffsets(1), heartbeat("a")
    )
    yield _script(
        f"not while members join, v{v}", *_live(), join("b", _ENTER, member_id=""), ask(_SOME), *_sweeps(), fetch("a")
    )
    yield _script(f"not while members sync, v{v}", *_live(), ask({("t", 0): 1}), join("a"), *_sweeps(), fetch("a"))
    yield _script(
        f"when the members have gone, v{v}", *_live(), ask({("t", 0): 1}), *_sweeps(), leave("a"), Until("Dead")
    )
    yield _script(
        f"committed anew, v{v}",
        simple_commit("s", v=v, retention=600_000),
        simple_commit("s", v=v, retention=1),
        Until("Dead"),
    )
    yield _script(
        f"committed anew to stay, v{v}",
        simple_commit("s", v=v, retention=600),
        simple_commit("s", v=v),
        *_sweeps(6),
        describe("o"),
    )
    yield _script(f"no retention at all, v{v}", simple_commit("s", v=v, retention=0), Until("Dead"))
    yield _script(f"a negative retention, v{v}", simple_commit("s", v=v, retention=-2), Until("Dead"))
    yield _script(f"the longest retention, v{v}", simple_commit("s", v=v, retention=2**62), *_sweeps(), describe("o"))


def _groups() -> Iterator[Script]:
    yield _script("an Empty group without offsets goes", *_live(), leave("a"), Until("Dead"), join("a"), heartbeat("a"))
    yield _script("an Empty group with offsets stays", *_live(), commit("a"), leave("a"), *_sweeps(), describe("o"))
    yield _script("a live group without offsets stays", *_live(), *_sweeps(), heartbeat("a"))
    yield _script("a reserved id does not keep the group", join("a", member_id=""), Until("Dead"), join("a"))
    yield _script(
        "a newcomer without protocols leaves no group", join("a", _ENTER, member_id="", protocols=()), Until("Dead")
    )
    yield _script(
        "the last offset is deleted",
        simple_commit("s", v=2, retention=1),
        Until("Dead"),
        simple_commit("s"),
        describe("o"),
    )
    other = [join("a", _ENTER, member_id="", protocol_type="connect"), sync("a", protocol_type="connect")]
    yield _script(
        "a live group of another type keeps all", *other, commit("a", _SOME, 2, retention=1), *_sweeps(), fetch("a")
    )
    unreadable = _live(protocols=(("range", b"?"),))
    yield _script(
        "subscriptions that cannot be read", *unreadable, commit("a", _SOME, 2, retention=1), *_sweeps(), fetch("a")
    )
    both = _live(protocols=(("range", subscription("t", "u")),))
    yield _script("all topics are subscribed to", *both, commit("a", _SOME, 2, retention=1), *_sweeps(), fetch("a"))
    yield _script("in v5 nothing can be asked for", simple_commit("s", v=5, retention=1), *_sweeps(), describe("o"))


def _by_the_minute() -> Iterator[Script]:
    """The retention of the broker: from the commit, or from when the group became Empty."""
    lone = simple_commit("s", group=GroupId("h"))
    yield _script(
        "from when it became Empty",
        *_live(),
        commit("a"),
        lone,
        *_sweeps(10),
        leave("a"),
        UntilOffsets(0, "h"),
        fetch("s"),
        Until("Dead"),
    )
    yield _script(
        "a live group: from the commit",
        *_live(),
        commit("a", _SOME),
        lone,
        UntilOffsets(0, "h"),
        UntilOffsets(1),
        heartbeat("a"),
    )
    yield _script(
        "a group of offsets: from the last commit",
        simple_commit("s"),
        lone,
        *_sweeps(10),
        simple_commit("s"),
        UntilOffsets(0, "h"),
        fetch("s"),
    )
