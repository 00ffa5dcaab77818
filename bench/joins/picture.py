"""The picture of `bench joins`: a panel for each way, a line for each partition, a colour for each owner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.joins.run import Seen

_COLOURS = ("#2471a3", "#1e8449", "#b7950b", "#7d3c98", "#c0392b")
_BEFORE, _AFTER = 0.4, 0.6  # seconds beside the join


def draw(seen: Mapping[str, Seen], path: Path) -> None:
    """All panels have the same scale of time."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    end = max(one.rebalance.whole for one in seen.values()) + _AFTER
    figure, panels = pyplot.subplots(len(seen), 1, figsize=(11, 10), layout="constrained", sharex=True)
    names = sorted({span.member for one in seen.values() for spans in one.spans.values() for span in spans})
    shown = [name.rpartition("/")[2] for name in names]
    colours = dict(zip(shown, _COLOURS, strict=True))
    for axes, (way, one) in zip(panels, seen.items(), strict=True):
        _draw_panel(axes, one, colours, end)
        whole, unowned = one.rebalance.whole, one.rebalance.unowned * 1e3
        axes.set_title(f"{way}: {whole:.2f} s until all is settled, {unowned:.0f} ms without owner", fontsize=11)
    panels[-1].set_xlim(-_BEFORE, end)
    panels[-1].set_xlabel("seconds since the new member was started")
    handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_panel(axes: Axes, seen: Seen, colours: Mapping[str, str], end: float) -> None:
    for line, place in enumerate(sorted(seen.spans)):
        for span in seen.spans[place]:
            start, stop = max(span.start - seen.began, -_BEFORE), min(span.end - seen.began, end)
            if start < stop:
                colour = colours[span.member.rpartition("/")[2]]
                axes.barh(line, stop - start, left=start, height=0.8, color=colour)
    axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
    axes.invert_yaxis()
    axes.set_yticks([])
    axes.set_ylabel(f"{len(seen.spans)} partitions")
    axes.spines[["top", "right", "left"]].set_visible(False)
