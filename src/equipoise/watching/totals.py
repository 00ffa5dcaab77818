"""Totals of a group since the watching began, for Prometheus: the views hold only the last rebalances."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from equipoise.coordinator.reasons import Departure, Refusal
from equipoise.histogram import Histogram
from equipoise.views.entries import Entry
from equipoise.views.model import RebalanceView
from equipoise.views.rebalances import from_row, reason

PHASES = ("detect", "join", "assign", "sync")
BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0)
OTHER = "other"
_DEPARTURES = frozenset(one.name.lower() for one in Departure)
_REFUSALS = frozenset(one.name.lower() for one in Refusal)


def _histogram() -> Histogram:
    return Histogram(BOUNDS_S)


@dataclass(slots=True)
class Totals:
    """What has happened since the watching began; the views hold only the last rebalances."""

    rebalances: Counter[str] = field(default_factory=Counter)  # by reason
    failed: int = 0  # overtaken
    moved: int = 0
    departures: Counter[str] = field(default_factory=Counter)
    fenced: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    phases: dict[str, Histogram] = field(default_factory=lambda: {name: _histogram() for name in PHASES})
    dark: Histogram = field(default_factory=_histogram)


def count_row(totals: Totals, row: Entry) -> None:
    """A row of the journal."""
    match row["type"]:
        case "rebalance":
            count_rebalance(totals, from_row(row))
        case "member_left":
            totals.departures[_known(row["departure"], _DEPARTURES)] += 1
        case "member_fenced":
            totals.fenced += 1
        case "commit_refused":
            totals.refused[_known(row["refusal"], _REFUSALS)] += 1


def _known(name: object, names: frozenset[str]) -> str:
    """A reason that only newer brokers know is "other": the number of labels is bounded."""
    return name if isinstance(name, str) and name in names else OTHER


def count_rebalance(totals: Totals, view: RebalanceView) -> None:
    """One rebalance, whoever told of it."""
    totals.rebalances[reason(view)] += 1
    totals.failed += view.overtaken
    totals.moved += len(view.moved)
    for name, took in zip(PHASES, view.phases or (), strict=False):
        if took is not None:
            totals.phases[name].add(took / 1000)
    for one in view.dark or ():
        totals.dark.add(one.dark_ms / 1000)
