"""The pictures of the report. Each function draws one picture onto the given axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from equipoise.views.summary import Row, Summary, words
from equipoise.wire.text import printable

REASONS = {
    "member_joined": "#4878b0",
    "member_left": "#8fb8de",
    "member_gone": "#8fb8de",
    "member_restarted": "#e8a33d",
    "static_member_replaced": "#e8a33d",
    "members_changed": "#c9a26d",
    "session_expired": "#c8443a",
    "poll_overrun": "#8e4b9e",
    "sync_expired": "#d9796b",
    "subscription_changed": "#6aa56e",
    "leader_rejoined": "#a8cba9",
    "member_rejoined": "#a8cba9",
    "never_settled": "#c9b6a0",
    "member_removed": "#777777",
}
_OTHER = "#b5b5b5"
_GAP = "#d62d20"
_INK, _PALE = "#303030", "#e6e6e6"
_MOST_BARS = 12
_LONGEST = 32  # letters of a label
MOST_PARTITIONS = 48
_MOST_SPANS = 20_000
_DPI = 130
STYLE: Any = {
    "font.size": 9,
    "axes.edgecolor": _PALE,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
Draw = Callable[[Axes], None]


def picture(draws: Sequence[Draw], width: float, height: float) -> Figure:
    """Draws one picture, or all of them, two in a row."""
    with matplotlib.rc_context(STYLE):
        space = ConstrainedLayoutEngine(h_pad=0.15, w_pad=0.1)
        figure = Figure(figsize=(width, height), dpi=_DPI, layout=space, facecolor="white")
        columns = min(2, len(draws))
        for number, draw in enumerate(draws):
            draw(figure.add_subplot(-(-len(draws) // columns), columns, number + 1))
    return figure


# -- counts


def rebalances_by_group(axes: Axes, groups: Sequence[Summary]) -> None:
    """A bar for each group: rebalances by reason."""
    axes.set_title("Which groups rebalance most, and why")
    _stacked(axes, {one.group: one.reasons for one in groups})
    axes.set_xlabel("rebalances")


def rebalances_by_client(axes: Axes, groups: Sequence[Summary]) -> None:
    """A bar for each client that caused rebalances: by reason."""
    axes.set_title("Who causes them")
    counts: dict[str, Counter[str]] = {}
    for one in groups:
        for row in one.rebalances:
            if row["cause_client"]:
                counts.setdefault(f"{row['cause_client']} · {one.group}", Counter())[row["reason"]] += 1
    _stacked(axes, counts)
    axes.set_xlabel("rebalances")


def _stacked(axes: Axes, counts: Mapping[str, Counter[str]]) -> None:
    shown = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name].total())[:_MOST_BARS]
    reasons = [reason for reason, _ in sum((counts[name] for name in shown), Counter()).most_common()]
    left = [0] * len(shown)
    for reason in reasons:
        sizes = [counts[name][reason] for name in shown]
        axes.barh(range(len(shown)), sizes, left=left, color=REASONS.get(reason, _OTHER), height=0.7)
        left = [before + size for before, size in zip(left, sizes, strict=True)]
    for place, total in enumerate(left):
        axes.text(total, place, f" {total:,}", va="center", fontsize=8)
    axes.set_xlim(0, 1.1 * max(left, default=1))
    _name_bars(axes, shown)
    _legend(axes, reasons)


def _legend(axes: Axes, reasons: Iterable[str]) -> None:
    patches = [Patch(color=REASONS.get(reason, _OTHER), label=words(reason)) for reason in reasons]
    if patches:
        axes.legend(handles=patches, loc="lower right")


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), labels(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.tick_params(axis="y", length=0)
    if not names:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=_OTHER)


def dark_partitions(axes: Axes, groups: Sequence[Summary]) -> None:
    """A bar for each partition that had no owner while its group had members: seconds, and gaps."""
    axes.set_title("How long partitions had no owner")
    rows = sorted((row for one in groups for row in one.flapping if row["dark_ms"]), key=lambda row: -row["dark_ms"])
    shown = rows[:_MOST_BARS]
    seconds = [row["dark_ms"] / 1000 for row in shown]
    axes.barh(range(len(shown)), seconds, color=_GAP, height=0.7, alpha=0.85)
    for place, row in enumerate(shown):
        gaps = "1 gap" if row["gaps"] == 1 else f"{row['gaps']:,} gaps"
        axes.text(seconds[place], place, f" {gaps}", va="center", fontsize=8)
    _name_bars(axes, [f"{row['topic']}-{row['partition']} · {row['group']}" for row in shown])
    axes.set_xlim(0, 1.2 * max(seconds, default=1))
    axes.set_xlabel("seconds, while the group had members")


# -- time


def rebalances_in_time(axes: Axes, groups: Sequence[Summary]) -> None:
    """A line for each group: a mark at the end of each rebalance, and its duration where it is known."""
    axes.set_title("When, and for how long")
    shown = [one for one in groups if one.rebalances][:_MOST_BARS]
    line = {one.group: place for place, one in enumerate(shown)}
    rows = _latest([row for one in shown for row in one.rebalances])
    timed = [row for row in rows if row["began"] is not None]
    _spans(axes, timed, [line[row["group"]] for row in timed], [_color(row) for row in timed], height=0.6, alpha=0.5)
    ends, places = [_days(row["ended"]) for row in rows], [line[row["group"]] for row in rows]
    axes.scatter(ends, places, c=[_color(row) for row in rows], s=14, marker="|", linewidths=1.6)
    _name_bars(axes, [one.group for one in shown])
    _in_time(axes)


def _color(row: Row) -> str:
    return REASONS.get(row["reason"], _OTHER)


def _spans(
    axes: Axes, rows: Sequence[Row], lines: Sequence[int], colors: Sequence[Any], *, height: float, alpha: float = 1
) -> None:
    """Bars from `began` to `ended`. A row without an end reaches the right edge."""
    if not rows:
        return
    end = max(row["ended"] or row["began"] for row in rows)
    starts = [_days(row["began"]) for row in rows]
    widths = [_days(row["ended"] or end) - start for row, start in zip(rows, starts, strict=True)]
    # With edges, or the shortest would be narrower than any point of the picture.
    axes.barh(lines, widths, left=starts, height=height, color=colors, edgecolor=colors, linewidth=0.5, alpha=alpha)


def _latest(rows: Sequence[Row]) -> Sequence[Row]:
    """The newest rows: more could neither be told apart nor drawn in reasonable time."""
    return (
        rows if len(rows) <= _MOST_SPANS else sorted(rows, key=lambda row: row["ended"] or row["began"])[-_MOST_SPANS:]
    )


def lag_in_time(axes: Axes, groups: Sequence[Summary]) -> None:
    """The lag of the groups that were furthest behind."""
    axes.set_title("Lag over time")
    peaks = {one.group: _lag_of(one) for one in groups}
    shown = sorted((group for group in peaks if peaks[group]), key=lambda group: -max(peaks[group].values()))[:6]
    for group, label in zip(shown, labels(shown), strict=True):
        axes.plot([_days(at) for at in peaks[group]], list(peaks[group].values()), label=label, linewidth=1.4)
    if shown:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, handlelength=1)
    axes.set_ylabel("records")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=_PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    _in_time(axes)


def _lag_of(group: Summary) -> dict[datetime, int]:
    """The group's lag over all partitions, at each time at which one is known."""
    total: dict[datetime, int] = {}
    for row in group.lag:
        if row["lag"] is not None:
            total[row["at"]] = total.get(row["at"], 0) + row["lag"]
    return total


def ownership_in_time(axes: Axes, group: Summary) -> None:
    """A line for each partition, gaps in red. If there are too many, those with the most changes are shown."""
    axes.set_title(f"Who owned which partition of {labels([group.group])[0]}")
    score = {(row["topic"], row["partition"]): row["score"] for row in group.flapping}
    places = sorted({(row["topic"], row["partition"]) for row in group.ownership})
    shown = sorted(sorted(places, key=lambda place: -score.get(place, 0))[:MOST_PARTITIONS])
    line = {place: number for number, place in enumerate(shown)}
    colors = _client_colors(group.ownership)
    drawn = _latest([row for row in group.ownership if (row["topic"], row["partition"]) in line and _is_drawn(row)])
    lines = [line[row["topic"], row["partition"]] for row in drawn]
    drawn_in = [colors[_client(row)] if row["member_id"] else _GAP for row in drawn]
    _spans(axes, drawn, lines, drawn_in, height=0.8)
    _name_bars(axes, [f"{topic}-{number}" for topic, number in shown])
    named = list(colors)[:_MOST_BARS]
    patches = [Patch(color=colors[client], label=label) for client, label in zip(named, labels(named), strict=True)]
    axes.legend(
        handles=[*patches, Patch(color=_GAP, label="nobody")], loc="upper left", bbox_to_anchor=(1, 1), handlelength=1
    )
    _in_time(axes)


def _client_colors(ownership: Iterable[Row]) -> dict[str, Any]:
    clients = sorted({_client(row) for row in ownership if row["member_id"]})
    palette = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
    # Without its reds, which mean nobody; strong ones first, their pale twins after.
    usable = [*(palette[i] for i in range(0, 20, 2) if i != 6), *(palette[i] for i in range(1, 20, 2) if i != 7)]
    return {client: usable[number % len(usable)] for number, client in enumerate(clients)}


def _is_drawn(row: Row) -> bool:
    """False for times at which the group had no members: they stay blank."""
    return row["member_id"] is not None or not row["is_empty"]


def _client(row: Row) -> str:
    return str(row["client_id"] or row["member_id"])


def _in_time(axes: Axes) -> None:
    # With less than three ticks of a unit in sight the next smaller one always has an interval that fits.
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis_date(tz="UTC")
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz="UTC"))  # type: ignore[no-untyped-call]


def _days(at: datetime) -> float:
    """A time as matplotlib counts it."""
    return float(date2num(at))  # type: ignore[no-untyped-call]


def labels(names: Sequence[str]) -> list[str]:
    """Labels of at most 32 letters. Long names that begin alike keep the letters in which they differ."""
    return [_literal(label) for label in _labels([printable(name) for name in names])]


def _literal(label: str) -> str:
    """Escapes what matplotlib interprets: text between dollars is a formula, a leading _ hides a legend. A group can
    also have no name."""
    text = label.replace("$", r"\$") or '""'
    return f" {text}" if text.startswith("_") else text


def _labels(names: Sequence[str]) -> list[str]:
    short = [_short(name) for name in names]
    for label in {label for label in short if short.count(label) > 1}:
        places = [place for place, one in enumerate(short) if one == label]
        alike = zip(*(names[place] for place in places), strict=False)
        begin = max(sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, alike)) - 8, 0)
        for place in places:
            short[place] = _clipped(names[place], begin)
    return short


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:20]}…{name[-10:]}"


def _clipped(name: str, begin: int) -> str:
    text = f"…{name[begin:]}" if begin else name
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
