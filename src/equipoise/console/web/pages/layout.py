"""What every page has: head, navigation, the state of the stream, the list of keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import htpy as h

from equipoise.console import words
from equipoise.console.web.assets import address
from equipoise.views.model import ClusterView, Source
from equipoise.wire.text import LONGEST_NAME, printable

Node = Any  # an element, a text, or a list of both: htpy's own type is not the same in all its versions

_PAGES = (("/groups", "Groups"), ("/topics", "Topics"), ("/cluster", "Cluster"))
_SOURCES = {
    Source.JOURNAL: "journal",
    Source.OFFSETS_TOPIC: "group records",
    Source.POLLING: "polling",
}
_STALE_MS = 5_000
_KEYS = (
    ("← →", "earlier, later (with Shift: ten times as far)"),
    ("↑ ↓", "lane above, lane below"),
    ("n p", "next, previous rebalance"),
    ("+ − 0", "nearer, wider, all of it"),
    ("o", "order of the lanes: owner, partition, lag"),
    ("t", "the same as tables"),
    ("Enter", "open the chosen rebalance"),
    ("Esc", "leave the timeline"),
    ("/", "filter"),
    ("g g, g t, g c", "groups, topics, cluster"),
    ("?", "this list"),
)


class Frame(NamedTuple):
    """What pages know of the console: where it looks, and whether it still hears anything."""

    bootstrap: str
    cluster: ClusterView | None
    trouble: str | None
    now: int
    reading_since: int | None = None  # the past from then on is still being read
    reading_percent: int | None = None


def page(frame: Frame, title: str, *content: Node, current: str = "") -> str:
    """A whole document."""
    return str(  # htpy begins it with <!doctype html>
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title[f"{title} · Equipoise"],
                h.link(rel="icon", href=address("icon.svg"), type="image/svg+xml"),
                h.script(src=address("theme.js")),
                h.link(rel="stylesheet", href=address("style.css")),
                h.script(src=address("page.js"), type="module"),
            ],
            h.body[
                h.a(".skip", href="#content")["to the content"],
                _header(frame, current),
                h.main(id="content")[_troubles(frame), *content],
                _keys(),
            ],
        ]
    )


def _header(frame: Frame, current: str) -> Node:
    source = "" if frame.cluster is None else f" · {_SOURCES[frame.cluster.source]}"
    return h.header[
        h.a(".brand", href="/groups")["Equipoise"],
        h.nav(aria_label="pages")[
            [h.a(href=place, aria_current="page" if place == current else None)[name] for place, name in _PAGES]
        ],
        h.span(".where")[printable(frame.bootstrap, LONGEST_NAME), source],
        h.span(id="live", role="status", data_state="none")["not live"],
        h.button(id="theme", type="button")["theme: auto"],
    ]


def _troubles(frame: Frame) -> Node:
    return h.div(id="trouble", role="status")[notices(frame)]


def notices(frame: Frame) -> Node:
    """What stands between the reader and the truth of this moment."""
    cluster = frame.cluster
    found: list[Node] = []
    if frame.trouble is not None:
        age = "" if cluster is None else f"; the picture is {words.duration(max(frame.now - cluster.as_of, 0))} old"
        found.append(
            h.p(".notice")[f"Not heard from {printable(frame.bootstrap, LONGEST_NAME)}: {frame.trouble}{age}."]
        )
    if frame.reading_since is not None:
        since = datetime.fromtimestamp(frame.reading_since / 1000, UTC).strftime("%H:%M")
        percent = "" if frame.reading_percent is None else f": {frame.reading_percent} %"
        found.append(
            h.p(".notice")[f"Reading back what happened since {since} UTC{percent}. The page fills in by itself."]
        )
    elif cluster is not None and cluster.source is Source.POLLING:
        found.append(h.p(".notice")["The source is polling: changes between two looks are seen as one."])
    return found


def is_stale(frame: Frame) -> bool:
    """Whether the last picture is grey."""
    cluster = frame.cluster
    return frame.trouble is not None and cluster is not None and frame.now - cluster.as_of > _STALE_MS


def _keys() -> Node:
    return h.dialog(id="keys", aria_label="keys")[
        h.h2["Keys"],
        h.table[[h.tr[h.td[h.kbd[key]], h.td[text]] for key, text in _KEYS]],
        h.p[h.button(type="button")["close"]],
    ]


def first_rows(caption: str, heads: list[Node], rows: Iterable[Node], count: int, *, listed: int) -> Node:
    """A table of the first `listed` of `count` rows, which says how many there are beside them. Others are not made."""
    return [table(caption, heads, list(islice(rows, listed))), and_more(count - listed)]


def and_more(count: int) -> Node:
    """A line under a list that was cut."""
    return count > 0 and h.p(".quiet")[f"and {count:,} more"]


def table(caption: str, heads: list[Node], rows: list[Node], **attributes: Any) -> Node:
    """A table that can be wider than a phone."""
    return h.div(".scroll", tabindex="0", role="region", aria_label=caption)[
        h.table(**attributes)[
            h.caption[caption],
            h.thead[h.tr[heads]],
            h.tbody[rows or h.tr[h.td(".quiet", colspan=str(max(len(heads), 1)))["nothing"]]],
        ]
    ]


def head(name: str, *, is_number: bool = False, is_optional: bool = False) -> Node:
    """A heading of a column."""
    kinds = {"number": is_number, "optional": is_optional}
    return h.th(scope="col", class_=kinds)[name]


def number(value: int | None, *, unit: str = "", is_optional: bool = False) -> Node:
    """A figure, or a dash where it is unknown."""
    return h.td(class_={"number": True, "optional": is_optional})["–" if value is None else f"{value:,}{unit}"]


def name(text: str) -> str:
    """A name from outside, in one line and not endless."""
    return printable(text, LONGEST_NAME)
