"""The demo's picture: the owners of partitions over time, and the lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.console.demo.watch import Sighting

_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
_NOBODY = "#e6e6e6"
_INCHES, _DPI = (11, 6.2), 150


class Span(NamedTuple):
    """One bar of the picture: a partition had this owner from `begin` to `end`, in seconds of the demo."""

    partition: int
    owner: str
    begin: float
    end: float


def spans(looks: Sequence[Sighting], partitions: int) -> Iterator[Span]:
    """The owners of each partition, one after another."""
    for partition in range(partitions):
        begin, owner = looks[0].at, looks[0].owners.get(partition, "")
        for _, look in pairwise(looks):
            found = look.owners.get(partition, "")
            if found != owner:
                yield Span(partition, owner, begin, look.at)
                begin, owner = look.at, found
        yield Span(partition, owner, begin, looks[-1].at)


def draw(
    path: Path,
    looks: Sequence[Sighting],
    *,
    members: Sequence[str],
    partitions: int,
    events: Sequence[tuple[float, str]],
    dead: tuple[str, float, float] | None = None,
) -> None:
    """`dead` is the killed member, and from when to when it was dead. What the group still counts as its own is drawn
    without an owner."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(zip(members, _COLOURS, strict=False))
    figure, (owned, behind) = plt.subplots(
        2, 1, sharex=True, figsize=_INCHES, height_ratios=(4, 1), layout="constrained"
    )
    for span in spans(looks, partitions):
        _bar(owned, span, colours, dead)
    _label(owned, members, partitions, colours)
    behind.fill_between([look.at for look in looks], [look.lag for look in looks], color="#777777", linewidth=0)
    behind.set(ylabel="orders\nnot yet committed", xlabel="seconds", xlim=(0, looks[-1].at), ylim=(0, None))
    for number, (at, event) in enumerate(events):
        for axes in (owned, behind):
            axes.axvline(at, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
        height = 1.01 + 0.035 * (number % 3)  # neighbours must not overlap
        owned.text(at, height, event, transform=owned.get_xaxis_transform(), fontsize=9, ha="center")
    for axes in (owned, behind):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Who had which partition", x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)


def _bar(axes: Any, span: Span, colours: dict[str, str], dead: tuple[str, float, float] | None) -> None:
    begin, end, style = span.begin, span.end, {"height": 0.82, "linewidth": 0}
    if dead is not None and span.owner == dead[0] and begin < dead[2] and end > dead[1]:
        alive = max(begin, dead[1])
        axes.barh(span.partition, end - alive, left=alive, color=_NOBODY, hatch="////", edgecolor="#999999", **style)
        end = alive
    if end > begin:
        axes.barh(span.partition, end - begin, left=begin, color=colours.get(span.owner, _NOBODY), **style)


def _label(axes: Any, members: Sequence[str], partitions: int, colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colours[name], label=name) for name in members]
    handles.append(Patch(facecolor=_NOBODY, edgecolor="#999999", hatch="////", label="its owner is dead"))
    handles.append(Patch(color=_NOBODY, label="nobody"))
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.01, 1.12), ncols=len(handles), frameon=False, borderpad=0
    )
    axes.set(ylabel="partition of orders", yticks=range(partitions), ylim=(-0.6, partitions - 0.4))
