"""The timeline as tables: spans, gaps, rebalances. They need no JavaScript, and a screen reader reads them."""

from __future__ import annotations

import htpy as h

from equipoise.console import words
from equipoise.console.web.pages.group import rebalances
from equipoise.console.web.pages.layout import Node, head, name, table
from equipoise.console.web.timeline import Timeline, clock, group_address
from equipoise.views.model import GroupView

_NO_OWNER = -1
_WORDS = {_NO_OWNER: "no owner", -2: "the group was empty", -3: "not known"}
_LISTED = 2_000


def content(view: GroupView, picture: Timeline) -> Node:
    """The page's body."""
    spans = [
        (topic, number, owner, at, end)
        for (topic, number), lane in picture.rows.items()
        for (at, owner), (end, _) in zip(lane, [*lane[1:], (picture.to, 0)], strict=True)
    ]
    gaps = sorted((one for one in spans if one[2] == _NO_OWNER), key=lambda one: one[3] - one[4])
    heads = [head("partition"), head("owner"), head("from, UTC"), head("to"), head("for", is_number=True)]
    episodes = [h.tr[h.td[clock(one["from"])], h.td[clock(one["to"])], h.td[one["text"]]] for one in picture.episodes]
    return [
        h.div(".title")[h.h1[h.a(href=group_address(view.group_id))[name(view.group_id)], ", as tables"]],
        table("Episodes", [head("from, UTC"), head("to"), head("what")], episodes),
        rebalances(view.rebalances, _LISTED),
        table("Gaps without owner, the longest first", heads, [_span(one, picture) for one in gaps[:_LISTED]]),
        table("Owners of each partition", heads, [_span(one, picture) for one in spans[:_LISTED]]),
        len(spans) > _LISTED and h.p(".quiet")[f"and {len(spans) - _LISTED:,} more"],
    ]


def _span(one: tuple[str, int, int, int, int], picture: Timeline) -> Node:
    topic, number, owner, at, end = one
    called = picture.owners[owner]["name"] if owner >= 0 else _WORDS[owner]
    until = "now" if end >= picture.to else clock(end, with_ms=True)
    return h.tr[
        h.td[f"{name(topic)} {number}"],
        h.td[called],
        h.td[clock(at, with_ms=True)],
        h.td[until],
        h.td(".number")[words.duration(end - at)],
    ]
