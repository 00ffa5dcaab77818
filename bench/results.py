"""Values measured round by round, by figure, and the two ways to print them. The JSON has one shape for all benches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.figures import VERDICTS, Figure, machine, print_circumstances, rounded, short, versions
from equipoise.console.tables import print_table

Measured = tuple[Figure, Sequence[float]]


class Results:
    def __init__(self, bench: str, figures: Sequence[Figure], notes: Sequence[str], **facts: Any) -> None:
        self._bench = bench
        self.figures = figures
        self._notes = notes
        self._facts = facts
        self._values: dict[str, list[float]] = {figure.key: [] for figure in figures}

    def add(self, key: str, *values: float) -> None:
        self._values[key] += values

    def values(self, key: str) -> list[float]:
        return self._values[key]

    def print(self, as_json: bool, seconds: float) -> None:
        if as_json:
            measured = [(figure, self._values[figure.key]) for figure in self.figures]
            print_json(self._bench, seconds, measured, self._notes, versions(), **self._facts)
        else:
            self._print_table(seconds)

    def _print_table(self, seconds: float) -> None:
        columns = ("figure", "unit", "best", "median", "spread", "aim", "")
        print_table(columns, [self._row(figure) for figure in self.figures])
        print_circumstances(seconds, self._notes)

    def _row(self, figure: Figure) -> tuple[str, ...]:
        values = self._values[figure.key]
        best = figure.best(values)
        spread = f"{short(min(values))} - {short(max(values))}" if len(values) > 1 else ""
        verdict = VERDICTS[figure.meets_aim(best)]
        return figure.title, figure.unit, short(best), short(median(values)), spread, figure.aim_text, verdict


def print_json(
    bench: str,
    seconds: float,
    measured: Iterable[Measured],
    notes: Sequence[str],
    versions: Mapping[str, str],
    **facts: Any,
) -> None:
    """Figures that have no values are left out. `facts` is what this bench says of itself, as its sizes."""
    document = {
        "bench": bench,
        "seconds": round(seconds, 1),
        "versions": versions,
        "machine": machine(),
        **facts,
        "figures": {figure.key: _document(figure, values) for figure, values in measured if values},
        "notes": notes,
    }
    print(json.dumps(document, indent=2))


def _document(figure: Figure, values: Sequence[float]) -> dict[str, Any]:
    best = figure.best(values)
    aim = {"aim_at_least" if figure.more_is_better else "aim_at_most": figure.aim} if figure.aim else {}
    return {
        "title": figure.title,
        "unit": figure.unit,
        "best": rounded(best),
        "median": rounded(median(values)),
        "rounds": [rounded(value) for value in values],
        **(aim | {"meets_aim": figure.meets_aim(best)} if aim else {}),
    }
