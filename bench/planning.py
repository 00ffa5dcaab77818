"""The study of docs/planning.md: every scenario under four strategies, from 10 to 10,000 members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.simulate.plan import SCENARIOS, Planned, PlanSettings, plan

STRATEGIES = ("eager", "cooperative", "static", "consumer")
SIZES = (10, 100, 1_000, 10_000)
PARTITIONS = 10  # of each member
_COLOURS = dict(zip(STRATEGIES, ("#4477aa", "#66ccee", "#228833", "#ee6677"), strict=True))
_INCHES, _DPI = (11, 12), 120


class Studied(NamedTuple):
    """A scenario at one size, by strategy."""

    scenario: str
    members: int
    planned: list[Planned]


def study(sizes: Sequence[int] = SIZES) -> Iterator[Studied]:
    for scenario in SCENARIOS:
        for members in sizes:
            settings = PlanSettings(members=members, partitions=PARTITIONS * members, spread=True)
            yield Studied(scenario, members, list(plan(scenario, STRATEGIES, settings)))


def rows(found: Studied) -> Iterator[str]:
    """Of the table, in Markdown: for each strategy one."""
    partitions = PARTITIONS * found.members
    for one in found.planned:
        cells = (
            found.scenario,
            f"{found.members:,}",
            one.strategy,
            f"{one.rebalances:,}",
            f"{one.messages / found.members:,.1f}",
            f"{one.dark_partition_seconds / partitions:.2f} s",
            f"{one.longest_dark_seconds:.1f} s",
            f"{one.repeated_partition_seconds / partitions:.3f} s",
        )
        yield "| " + " | ".join(cells) + " |"


def print_study(picture: Path) -> None:
    """The table to stdout, and the picture."""
    found = []
    for one in study():
        found.append(one)
        print("\n".join(rows(one)), flush=True)
    draw(picture, found)


def draw(path: Path, found: Sequence[Studied]) -> None:
    """Rows are scenarios; columns are rebalances, messages of a member, and time without an owner of a partition."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(SCENARIOS), 3, figsize=_INCHES, layout="constrained", sharex=True)
    for row, scenario in zip(panels, SCENARIOS, strict=True):
        mine = [one for one in found if one.scenario == scenario]
        for number, strategy in enumerate(STRATEGIES):
            sizes = [one.members for one in mine]
            plans = [one.planned[number] for one in mine]
            dark = [one.dark_partition_seconds / (PARTITIONS * size) for one, size in zip(plans, sizes, strict=True)]
            messages = [one.messages / size for one, size in zip(plans, sizes, strict=True)]
            for panel, values in zip(row, ([one.rebalances for one in plans], messages, dark), strict=True):
                panel.plot(sizes, values, marker="o", label=strategy, color=_COLOURS[strategy])
        row[0].set_ylabel(scenario)
        for panel in row:
            _scale(panel)
    titles = ("rebalances", "messages of a member", "s without an owner, of a partition")
    for panel, title in zip(panels[0], titles, strict=True):
        panel.set_title(title, fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("members")
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def _scale(panel: Any) -> None:
    """Logarithmic where values differ by more than twenty times; from 0 on in any case."""
    values = [float(value) for line in panel.get_lines() for value in line.get_ydata()]
    panel.set_xscale("log")
    positive = [value for value in values if value > 0]
    if positive and max(positive) > 20 * min(positive):
        panel.set_yscale("symlog", linthresh=1)
    panel.set_ylim(bottom=0)
