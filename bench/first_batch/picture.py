"""The picture of `bench first-batch`: a panel for each case, a line for each process, darker where it took more CPU."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.first_batch.processes import Lane
    from bench.first_batch.query import FirstBatch

_COLOURS = {"JVM": "#b9770e", "driver's source": "#1e8449"}
_DEFAULT = "#2471a3"
_PALE = 0.08  # of a process that is there and waits


def draw(seen: Mapping[str, FirstBatch], path: Path) -> None:
    """All panels have the same scale of time, from load() on."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    end = max(one.seconds for one in seen.values())
    heights = [len(one.lanes) + 1.5 for one in seen.values()]
    figure, panels = pyplot.subplots(
        len(seen), 1, figsize=(11, 0.28 * sum(heights) + 0.6), layout="constrained", sharex=True, height_ratios=heights
    )
    for axes, (title, one) in zip(panels, seen.items(), strict=True):
        _draw_panel(axes, one)
        cpu = sum(lane.cpu for lane in one.lanes)
        axes.set_title(f"{title}: {one.seconds:.1f} s, of which {cpu:.1f} s CPU", fontsize=10, loc="left")
    panels[-1].set_xlim(0, end * 1.02)
    panels[-1].set_xlabel("seconds since load(); dark: on a core, pale: waiting")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_panel(axes: Axes, seen: FirstBatch) -> None:
    for line, lane in enumerate(seen.lanes):
        _draw_lane(axes, line, lane, seen.seconds)
    *earlier, last = seen.marks.items()
    for at in seen.marks.values():
        axes.axvline(at, color="black", linewidth=0.8, linestyle=":")
    # The first two often come together: one label for both.
    axes.annotate(f"  {', '.join(name for name, _ in earlier)}", (earlier[-1][1], -0.5), fontsize=7, va="bottom")
    axes.annotate(f"{last[0]} ", (last[1], -0.5), fontsize=7, ha="right", va="bottom")
    axes.set_yticks(range(len(seen.lanes)), [lane.name for lane in seen.lanes], fontsize=8)
    axes.set_ylim(len(seen.lanes) - 0.4, -1.2)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_lane(axes: Axes, line: int, lane: Lane, end: float) -> None:
    colour = _COLOURS.get(lane.name, _DEFAULT)
    for (start, before), (stop, after) in pairwise(lane.samples):
        if start < end and stop > start:
            share = min(1.0, max(_PALE, (after - before) / (stop - start)))
            axes.barh(line, stop - start, left=start, height=0.7, color=colour, alpha=share, linewidth=0)
