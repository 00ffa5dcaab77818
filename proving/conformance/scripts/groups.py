"""Groups in every state, to begin a script with. Dynamic members have small letters, static ones capitals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from proving.conformance.steps import Script, Step, join, leave, simple_commit, subscription, sync

Table = Mapping[str, Sequence[Step]]  # scripts by name

OTHER = (("range", subscription("t", "u")),)  # other bytes than a member first came with
MEMBER_ID_REQUIRED_FROM = 4


class Section(NamedTuple):
    """Of the specification: its scripts, and the world they are played in."""

    name: str
    world: str = "main"
    brisk_ms: int = 0

    def script(self, name: str, *steps: Step) -> Script:
        return Script(self.name, name, steps, self.world, self.brisk_ms)

    def scripts(self, table: Table) -> Iterator[Script]:
        for name, steps in table.items():
            yield self.script(name, *steps)


def enter(who: str, v: int = 9, **more: Any) -> list[Step]:
    """A new member. From v4 on a dynamic one is told its id first, and comes back with it."""
    if who.isupper() or v < MEMBER_ID_REQUIRED_FROM:
        return [join(who, v, member_id="", **more)]
    return [join(who, v, member_id="", **more), join(who, v, **more)]


def assigned(*members: str) -> dict[str, str]:
    return {who: f"for {who}" for who in members}


def synced(*members: str, **more: Any) -> list[Step]:
    """The followers first; the first of them leads."""
    leader, *followers = members
    return [*(sync(who, **more) for who in followers), sync(leader, assign=assigned(*members), **more)]


def completing(*members: str, **more: Any) -> list[Step]:
    """All have joined, nobody has synced. The first leads."""
    steps: list[Step] = enter(members[0], **more)
    for count, who in enumerate(members[1:], 1):
        steps += enter(who, **more)
        steps += [join(other, **more) for other in members[:count]]
    return steps


def stable(*members: str, **more: Any) -> list[Step]:
    names = {"protocol_type": more["protocol_type"]} if "protocol_type" in more else {}
    return [*completing(*members, **more), *synced(*members, **names)]


def preparing(*members: str) -> list[Step]:
    """The last one has come back with other topics and is parked, the others are not back yet."""
    return [*stable(*members), join(members[-1], protocols=OTHER)]


def empty(who: str = "a") -> list[Step]:
    """Members were here and have left."""
    return [*stable(who), leave(who)]


def reserved(who: str = "a") -> list[Step]:
    """Empty but for an id that was given and not yet used."""
    return [join(who, member_id="")]


def simple() -> list[Step]:
    """Never had members; only offsets."""
    return [simple_commit("s")]
