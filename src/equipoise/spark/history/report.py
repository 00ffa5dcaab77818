"""The report: one HTML page that needs no other file, and its pictures as PNG files."""

from __future__ import annotations

import base64
import hashlib
import io
import string
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path

import pyarrow as pa

from equipoise.spark.history.summary import summarise
from equipoise.views.advice import advise
from equipoise.views.summary import REJOINED, Summary, words
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

PAGE, OVERVIEW = "report.html", "history.png"
_OWNERSHIPS = 3  # groups whose partitions are drawn
_LISTED = 200  # groups in the table
_CAUSES = 20  # rows of that table
_LONGEST = 1_000  # letters of a cell; the tables in Parquet have all
_LONGEST_FILE = 64
_IN_FILES = frozenset(string.ascii_letters + string.digits + "-_.")
_OWNERSHIP_FILE = "ownership-{}.png"
_OWNERSHIP_CAPTION = "Left blank: no member at all. Red: members, but nobody had the partition. Times are UTC."
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #303030; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.about, figcaption { color: #707070; } figure { margin: 1rem 0; } img { max-width: 100%; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .7rem .3rem 0; text-align: left; }
th { border-bottom: 2px solid #e6e6e6; } td { border-bottom: 1px solid #efefef; vertical-align: top; }
td { overflow-wrap: anywhere; }
td.n, th.n { text-align: right; } td.n, td.t { font-variant-numeric: tabular-nums; white-space: nowrap; }
code { background: #f3f3f3; padding: 0 .25em; border-radius: 3px; }
"""


def write_report(tables: Mapping[str, pa.Table], out: Path, about: str) -> Path:
    """Writes the page and the PNG files into `out`; returns the page's path. `about`: where the data is from."""
    groups = summarise(tables)
    pictures = _pictures(groups)
    for old in out.glob(_OWNERSHIP_FILE.format("*")):  # of groups that are drawn no more
        old.unlink()
    for name, (png, _) in pictures.items():
        (out / name).write_bytes(png)
    page = out / PAGE
    page.write_text(_page(groups, pictures, about), encoding="utf-8")
    return page


# -- pictures

Pictures = Mapping[str, tuple[bytes, str]]  # by file name: the PNG, and what is said below it


def _pictures(groups: Sequence[Summary]) -> Pictures:
    try:
        from equipoise.spark.history import plots
    except ImportError:
        raise UsageError("the report's pictures need matplotlib: pip install 'equipoise[plots]'") from None
    restless = [one for one in groups if one.ownership][:_OWNERSHIPS]
    owned = {file_name(one.group): partial(plots.ownership_in_time, group=one) for one in restless}
    common = (
        plots.rebalances_by_group,
        plots.rebalances_by_client,
        plots.rebalances_in_time,
        plots.dark_partitions,
        plots.lag_in_time,
    )
    draws = [*(partial(draw, groups=groups) for draw in common), *list(owned.values())[:1]]
    whole = _png(plots.picture(draws, 14, 11.5))
    found = {OVERVIEW: (whole, "Times are UTC. Lag before now is an estimate: see below.")}
    for (name, draw), one in zip(owned.items(), restless, strict=True):
        lines = min(plots.MOST_PARTITIONS, len({(row["topic"], row["partition"]) for row in one.ownership}))
        found[name] = _png(plots.picture([draw], 12, 1.4 + 0.22 * lines)), _OWNERSHIP_CAPTION
    return found


def _png(figure: object) -> bytes:
    data = io.BytesIO()
    with warnings.catch_warnings():  # a font without the letters of a name draws boxes: no reason to stop or to tell
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        figure.savefig(data, format="png")  # type: ignore[attr-defined]  # matplotlib's: it is imported if needed
    return data.getvalue()


def file_name(group: str) -> str:
    """A file name for any group id, also where A and a are the same file. A changed name ends in a number, so that two
    groups never share a file."""
    plain = "".join(letter if letter in _IN_FILES else "_" for letter in group[:_LONGEST_FILE])
    if plain != group or not plain.islower():
        plain += f"-{hashlib.sha256(group.encode(errors='surrogatepass')).hexdigest()[:8]}"
    return _OWNERSHIP_FILE.format(plain)


# -- the page


def _page(groups: Sequence[Summary], pictures: Pictures, about: str) -> str:
    parts = [
        f"<h1>Rebalance history</h1><p class='about'>{_safe(about)}{_span(groups)}</p>",
        f"<p>{_in_short(groups)}</p>",
        f"<h2>Which setting would help</h2>{_advice_list(groups)}",
        f"<h2>In pictures</h2>{_figure(OVERVIEW, pictures[OVERVIEW])}",
        f"<h2>Groups</h2>{_groups_table(groups)}",
        f"<h2>Why, and because of whom</h2>{_causes_table(groups)}",
        "<h2>Partitions and their owners</h2>",
        *(_figure(name, found) for name, found in pictures.items() if name != OVERVIEW),
        f"<h2>The most restless partitions</h2>{_flapping_table(groups)}",
        f"<h2>What these figures can know</h2>{_honesty(groups)}",
    ]
    head = f"<meta charset='utf-8'><title>Rebalance history</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>"


def _span(groups: Sequence[Summary]) -> str:
    spans = [one.span for one in groups if one.span is not None]
    if not spans:
        return ""
    return f", {_time(min(first for first, _ in spans))} to {_time(max(last for _, last in spans))} UTC"


def _in_short(groups: Sequence[Summary]) -> str:
    """The answers, one sentence each."""
    busy = [one for one in groups if one.rebalances]
    if not busy:
        return "No group has rebalanced."
    first = busy[0]
    reason, times = first.reasons.most_common(1)[0]
    text = (
        f"{sum(len(one.rebalances) for one in busy):,} rebalances of {len(busy)} groups. "
        f"<b>{_safe(first.group)}</b> had the most, {len(first.rebalances):,} ({_often(first)}), "
        f"{times:,} of them for the reason “{escape(words(reason))}”"
    )
    if first.culprits:
        client, caused = first.culprits.most_common(1)[0]
        text += f"; <b>{_safe(client)}</b> caused {caused:,}"
    dark = max(busy, key=lambda one: one.dark_ms)
    if dark.dark_ms:
        text += f". Partitions of <b>{_safe(dark.group)}</b> were without owner for {duration(dark.dark_ms)} in all"
    return text + "."


def _figure(name: str, found: tuple[bytes, str]) -> str:
    source = f"data:image/png;base64,{base64.b64encode(found[0]).decode()}"
    return f"<figure><img alt='{escape(name)}' src='{source}'><figcaption>{found[1]}</figcaption></figure>"


def _groups_table(groups: Sequence[Summary]) -> str:
    names = ("group", "rebalances", "how often", "time in them", "longest", "without owner", "most frequent reason")
    rows = [(one.group, *figures(one)) for one in groups[:_LISTED]]
    more = f"<p>And {len(groups) - _LISTED:,} more.</p>" if len(groups) > _LISTED else ""
    return _table((*names, "most often caused by", "protocol", "lag now"), rows, (1, 2, 3, 4, 5, 9)) + more


def figures(one: Summary) -> tuple[str, ...]:
    """A group's row in the table of the report."""

    def times(ms: int) -> str:
        return "unknown" if one.is_guessed else duration(ms)

    return (
        f"{len(one.rebalances):,}",
        _often(one),
        times(one.duration_ms),
        times(one.longest_ms),
        times(one.dark_ms),
        _first(Counter({words(reason): times for reason, times in one.reasons.items()})),
        _first(one.culprits),
        one.protocols[0] if one.protocols else "",
        "unknown" if one.lag_now is None else f"{one.lag_now:,}",
    )


def _often(one: Summary) -> str:
    """The rate of rebalances, or the observed time if it is too short for a rate."""
    if not one.rebalances:
        return ""
    seen = f"in {duration(round(one.seen_for.total_seconds() * 1000))}"
    return seen if one.per_hour is None else f"{one.per_hour:,.1f} an hour"


def _first(counter: Mapping[str, int]) -> str:
    if not counter:
        return ""
    name = max(counter, key=lambda one: counter[one])
    return f"{name} ({counter[name]:,})"


def _causes_table(groups: Iterable[Summary]) -> str:
    rows = sorted((row for one in groups for row in one.causes), key=lambda row: -row["count"])
    cells = [
        (
            row["group"],
            words(row["reason"]),
            " at ".join(filter(None, (row["cause_client"], (row["cause_host"] or "").lstrip("/")))),
            f"{row['count']:,}",
            _time(row["last"]),
        )
        for row in rows[:_CAUSES]
    ]
    if not cells:
        return "<p>Nothing to tell.</p>"
    rest = sum(row["count"] for row in rows[_CAUSES:])
    more = f"<p>And {rest:,} more, for {len(rows) - _CAUSES:,} clients and reasons: table <code>causes</code>.</p>"
    return _table(("group", "reason", "client", "times", "last"), cells, (3,), (4,)) + (more if rest else "")


def _advice_list(groups: Iterable[Summary]) -> str:
    rows = [(one.group, found.setting, found.text) for one in groups for found in advise(one)]
    return _table(("group", "setting", "why"), rows) if rows else "<p>No setting: nothing stands out.</p>"


def _flapping_table(groups: Iterable[Summary]) -> str:
    rows = sorted((row for one in groups for row in one.flapping if row["changes"]), key=lambda row: -row["score"])[:20]
    names = (
        "partition",
        "group",
        "changes of owner",
        "back to the one before",
        "owners an hour",
        "score",
        "without owner",
    )
    cells = [
        (
            f"{row['topic']}-{row['partition']}",
            row["group"],
            f"{row['changes']:,}",
            f"{row['returns']:,}",
            "" if row["owners_per_hour"] is None else f"{row['owners_per_hour']:,.1f}",
            f"{row['score']:,.1f}",
            duration(row["dark_ms"]),
        )
        for row in rows
    ]
    return _table(names, cells, range(2, 7)) if cells else "<p>No partition has changed its owner.</p>"


def _honesty(groups: Sequence[Summary]) -> str:
    texts = [
        "Without owner counts from when an owner stopped (its last sign of life, or the join by which it said so) to "
        "when somebody had the partition again, while the group had members.",
        "The score of a partition is its changes of owner in an hour, with those that went back to the owner before "
        "counted twice. What was seen for less than an hour is not counted up to one: the score is then of that time, "
        "and there is no rate.",
        "Lag now is exact. Lag at an earlier time takes as the log's end the first record that is as young: it is as "
        "right as the times of records are, and unknown where they have been deleted.",
        f"{REJOINED.capitalize()}: a member came back with other topics or, mostly, as a cooperative member does after "
        "it has given partitions up: this is the second round of a hand-over.",
        "Both topics forget: commits and generations that compaction or retention has taken are not here.",
    ]
    cut = sum(bool(row["cut"]) for one in groups for row in one.rebalances)
    if cut:
        texts.append(
            f"In {cut:,} of the rebalances more partitions moved or stood still than the journal lists: their figures "
            "are too low, by what the column <code>cut</code> says."
        )
    if any(one.is_guessed for one in groups):
        texts.insert(
            0,
            "Some groups have no journal (Apache Kafka keeps none). For them a rebalance is known by the generation "
            "it ended with, its reason is concluded from who came and went, and whether a member left or died, how "
            "long the rebalance took, and how long partitions stood still, cannot be known.",
        )
    return "<ul>" + "".join(f"<li>{text}</li>" for text in texts) + "</ul>"


def _table(
    names: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), times: Iterable[int] = ()
) -> str:
    classes = dict.fromkeys(numbers, " class='n'") | dict.fromkeys(times, " class='t'")
    kinds = [classes.get(place, "") for place in range(len(names))]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, names, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_safe(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _safe(text: str) -> str:
    """Escapes a name for HTML."""
    return escape(printable(text, _LONGEST))


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def duration(ms: int) -> str:
    """Milliseconds in the largest unit that keeps two digits."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"
