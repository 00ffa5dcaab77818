"""Plays as text: the transcript of both sides, and the table of what was compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proving.conformance.listed import CLASSIC, LISTED
from proving.conformance.play import Page, Played
from proving.conformance.side import Moment

_HEADS = ("section", "scripts", "steps", "equal", "listed", "different", "undecided")
_DULL: tuple[Any, ...] = (None, "", [], {}, -1, False, -(2**31))


def transcript(played: Played) -> str:
    """Every step, what came of it on both sides, and what differs."""
    lines = [f"--- {played.script}"]
    before: Moment = {}
    for number, page in enumerate(played.pages, 1):
        lines += [f"{number:3} {page.step}", *(f"      {line}" for line in _outcome(page, before))]
        before = page.kafka
    return "\n".join([*lines, *(f"  !!  {found}" for found in played.different)])


def _outcome(page: Page, before: Moment) -> Iterator[str]:
    for key in dict.fromkeys([*page.kafka, *page.ours]):
        kafka, ours = page.kafka.get(key), page.ours.get(key)
        if kafka != ours:
            yield f"kafka  {key}: {_words(kafka)}"
            yield f"ours   {key}: {_words(ours)}"
        elif kafka != before.get(key):
            yield f"both   {key}: {_words(kafka)}"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_words(one)}" for name, one in value.items() if one not in _DULL) or "-"
    if isinstance(value, list):
        return "[" + ", ".join(map(_words, value)) + "]"
    return str(value)


@dataclass
class Summary:
    """All plays of a run, random ones among them. Only the whole of it shows every listed difference."""

    played: Sequence[Played]
    seed: str
    is_whole: bool = True
    protocol: str = CLASSIC

    def verdict(self, one: Played) -> str:
        if one.different:
            return "different"
        if one.again and not one.is_drawn:
            return "undecided"
        return "listed" if one.listed else "equal"

    @property
    def unseen(self) -> list[str]:
        """Listed, and no script has shown them."""
        seen = {name for one in self.played for name in one.listed}
        own = [row for row in LISTED if row.protocol == self.protocol]
        return [row.name for row in own if self.is_whole and row.is_compared and row.name not in seen]

    @property
    def is_good(self) -> bool:
        return not self.unseen and all(self.verdict(one) in ("equal", "listed") for one in self.played)

    def table(self) -> str:
        sections = dict.fromkeys(one.script.section for one in self.played)
        rows = [self._row(name, [one for one in self.played if one.script.section == name]) for name in sections]
        return aligned([_HEADS, *rows, self._row("all", self.played)])

    def _row(self, name: str, played: Sequence[Played]) -> tuple[str, ...]:
        verdicts = [self.verdict(one) for one in played]
        counts = [len(played), sum(one.steps for one in played), *(verdicts.count(head) for head in _HEADS[3:])]
        return name, *map(str, counts)

    def text(self) -> str:
        odd = [one for one in self.played if self.verdict(one) in ("different", "undecided")]
        parts = [self.table(), f"seed of the random scripts: {self.seed}"]
        parts += [transcript(one) for one in odd]
        parts += [f"undecided: {one.script}: {one.again}" for one in odd if one.again]
        parts += [f"listed, but it no longer occurs: {name}" for name in self.unseen]
        return "\n".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) if index == 0 else cell.rjust(width) for index, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    )
