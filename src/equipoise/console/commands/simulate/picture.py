"""The picture of a plan: a panel for each cost, a bar for each strategy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise.simulate.plan import Planned

_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377")
_INCHES, _DPI = (11, 3.6), 150
_PANELS = (
    ("rebalances", "rebalances"),
    ("messages", "messages"),
    ("partition-seconds\nwithout owner", "dark_partition_seconds"),
    ("partition-seconds\nprocessed twice", "repeated_partition_seconds"),
)


def draw(path: Path, title: str, planned: Sequence[Planned]) -> None:
    """Logarithmic where values differ by more than a hundred times."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(_PANELS), figsize=_INCHES, layout="constrained")
    figure.suptitle(title)
    names = [one.strategy for one in planned]
    for panel, (label, attribute) in zip(panels, _PANELS, strict=True):
        values = [float(getattr(one, attribute)) for one in planned]
        panel.bar(names, values, color=[_COLOURS[number % len(_COLOURS)] for number in range(len(names))])
        positive = [value for value in values if value > 0]
        if positive and max(positive) > 100 * min(positive):
            panel.set_yscale("symlog", linthresh=min(positive))
        panel.set_title(label, fontsize=10)
        panel.tick_params(axis="x", labelrotation=45, labelsize=8)
    figure.savefig(path, dpi=_DPI)
    plt.close(figure)
