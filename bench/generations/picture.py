"""The picture of `bench generations`: one panel for each change of the group, and one for the requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.generations.groups import Kind
from bench.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {Kind.ZK_FAITHFUL: "#c0392b", Kind.ZK_SAFE: "#e08e0b", Kind.EAGER: "#2471a3", Kind.COOPERATIVE: "#1e8449"}
_PANELS = (
    ("join", "unowned", "A member joins: time without owner"),
    ("leave", "unowned", "A member leaves: time without owner"),
    ("crash", "unowned", "A member is killed: time without owner"),
    ("join", "requests", "A member joins: requests of all members"),
)


def draw(results: Results, members: Sequence[int], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for axes, (event, what, title) in zip(panels.flat, _PANELS, strict=True):
        _draw_panel(axes, results, members, event, what)
        axes.set_title(title, fontsize=11)
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(Kind))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_panel(axes: Axes, results: Results, members: Sequence[int], event: str, what: str) -> None:
    width = 0.8 / len(Kind)
    for position, kind in enumerate(Kind):
        heights = [median(results.values(f"{kind.value}_{count}_{event}_{what}")) for count in members]
        places = [number + (position - 1.5) * width for number in range(len(members))]
        bars = axes.bar(places, heights, width, color=_COLOURS[kind], label=kind.title)
        axes.bar_label(bars, [f"{height:,.0f}" for height in heights], fontsize=7, padding=1)
    axes.set_xticks(range(len(members)), [f"{count} members" for count in members])
    axes.set_ylabel("ms, mean of all partitions" if what == "unowned" else "requests")
    axes.spines[["top", "right"]].set_visible(False)
    if what == "unowned" and event != "crash":
        axes.set_yscale("log")
