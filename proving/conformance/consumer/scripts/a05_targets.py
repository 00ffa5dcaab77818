"""E4: which assignor, and what it makes of the group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.consumer.steps import ack, arrive, beat, depart, look, settled
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Pause, Script, Step

_SECTION = Section("A12 targets", "consumer")
_LIMITS = Section("A12 targets", "consumer limits")
_UNIFORM: dict[str, Any] = {"server_assignor": "uniform"}
_RANGE: dict[str, Any] = {"server_assignor": "range"}

_TABLE: Table = {
    "no vote": [arrive("a"), look()],
    "one vote": [arrive("a", **_UNIFORM), look(), beat("a"), look()],
    "a vote later": [arrive("a"), beat("a", **_UNIFORM), look(), beat("a", **_RANGE), look()],
    "a vote is not taken back": [arrive("a", **_UNIFORM), beat("a", server_assignor=None), look()],
    "two for uniform, one for range": [arrive("a", **_UNIFORM), arrive("b", **_UNIFORM), arrive("c", **_RANGE), look()],
    "one for uniform, two without": [arrive("a"), arrive("b", **_UNIFORM), arrive("c"), look()],
    "the vote changes the target only with another cause": [
        *settled("a", "b", topics=("t", "u")),
        beat("a", **_UNIFORM),
        beat("b", **_UNIFORM),
        look(),
        arrive("c", "t", "u"),
        look(),
    ],
    "the voter leaves": [arrive("a"), arrive("b", **_UNIFORM), depart("b"), look(), beat("a"), look()],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for count in range(1, 7):
        members = "abcdef"[:count]
        yield _SECTION.script(f"uniform, {count} members", *settled(*members, **_UNIFORM), look())
        yield _SECTION.script(f"uniform, {count} members, the first leaves", *_first_leaves(members))
        yield _SECTION.script(f"range, {count} members, the first leaves", *_first_leaves(members, **_RANGE))
    yield from _with_an_interval()


def _first_leaves(members: str, **vote: Any) -> list[Step]:
    others = [step for who in members[1:] for step in (beat(who), ack(who))]
    return [*settled(*members, **(vote or _UNIFORM)), depart(members[0]), *others, *others, look()]


def _with_an_interval() -> Iterator[Script]:
    script = _LIMITS.script
    yield script(
        "the second join within the interval",
        arrive("a"),
        arrive("b"),
        look(),
        beat("a"),
        Pause(1700),
        beat("a"),
        look(),
        ack("a"),
        beat("b"),
    )
    yield script(
        "who waited asks itself",
        arrive("a"),
        arrive("b"),
        beat("b"),
        Pause(1700),
        beat("b"),
        beat("a"),
        ack("a"),
        beat("b"),
    )
    yield script(
        "a leave within the interval", arrive("a"), arrive("b"), depart("b"), look(), Pause(1700), beat("a"), look()
    )
    yield script(
        "topics change within the interval", arrive("a"), beat("a", "t", "u"), beat("a"), Pause(1700), beat("a"), look()
    )
    yield script(
        "topics are dropped within the interval",
        arrive("a", "t", "u"),
        beat("a", "t"),
        ack("a"),
        look(),
        Pause(1700),
        beat("a"),
    )
    yield script("the interval is over", arrive("a"), Pause(1700), arrive("b"), look(), beat("a"), ack("a"), beat("b"))
    yield script("an empty subscription", arrive("a", names=[]), beat("a", "t"), look())
