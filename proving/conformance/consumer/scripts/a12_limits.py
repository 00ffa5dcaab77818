"""A3.13: no more than two members."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.steps import arrive, away, beat, classic, depart, guest, look
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Script

_SECTION = Section("A3.13 size", "consumer limits")

_TABLE: Table = {
    "a third": [arrive("a"), arrive("b"), arrive("c"), beat("a"), look()],
    "a third without topics": [arrive("a"), arrive("b"), arrive("c", names=[]), look()],
    "a third, static": [arrive("a"), arrive("b"), arrive("P"), look()],
    "a third, classic": [arrive("a"), arrive("b"), guest("c"), look()],
    "one of the two again": [arrive("a"), arrive("b"), arrive("b"), guest("b"), look()],
    "one leaves, another comes": [arrive("a"), arrive("b"), depart("a"), arrive("c"), look()],
    "a static one is back": [arrive("a"), arrive("P"), away("P"), arrive("P", member_id="x"), look()],
    "a static one is back, with the same id": [arrive("a"), arrive("P"), away("P"), arrive("P"), look()],
    "a third with a wrong assignor": [
        arrive("a"),
        arrive("b"),
        arrive("c", server_assignor="nope"),
        beat("c", epoch=1),
    ],
    "a classic group of three": [*classic("x", "y", "z"), arrive("n"), look()],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
