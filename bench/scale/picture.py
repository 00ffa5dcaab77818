"""The picture of `bench scale`: a panel for each series, a line for each part of the system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.scale.series import Series

_COLOURS = {"broker": "#2471a3", "consumer": "#1e8449", "source": "#b9770e"}


def draw(found: Sequence[Series], path: Path) -> None:
    """Both axes are logarithmic. A ring marks the first size at which a unit costs twice as much."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    rows = -(-len(found) // 2)
    figure, panels = pyplot.subplots(rows, 2, figsize=(11, 3.6 * rows), layout="constrained")
    for axes, series in zip(panels.flat, found, strict=True):
        doubles = dict(series.doublings())
        for part, costs in series.costs.items():
            axes.plot(series.sizes, costs, marker=".", color=_COLOURS[part], label=part)
            for size, cost in zip(series.sizes, costs, strict=True):
                if size == doubles[part]:
                    axes.plot(size, cost, marker="o", markersize=12, fillstyle="none", color=_COLOURS[part])
        axes.set(xscale="log", yscale="log", xlabel=series.axis, ylabel=f"CPU µs for a {series.unit}")
        axes.set_title(series.title, fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_COLOURS))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
