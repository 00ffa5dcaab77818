"""The cluster itself: brokers, the source in use, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterable

import htpy as h

from equipoise.console import words
from equipoise.console.commands.cluster import UNKNOWN_OF
from equipoise.console.web.pages.layout import Frame, Node, head, name, number, table

_SOURCES = {
    "journal": "the journal of this broker (__rebalances): causes, phases and gaps as its coordinator noted them",
    "offsets_topic": "group records of __consumer_offsets: who owned what; causes are concluded",
    "polling": "questions to the brokers; what happens between two of them is seen as one",
}


def cluster(frame: Frame) -> Node:
    """Brokers, the source in use, and what it cannot tell."""
    found = frame.cluster
    if found is None:
        return [h.div(".title")[h.h1["Cluster"]], h.p(".quiet")["Asking the cluster …"]]
    rows = [
        h.tr[
            number(one.node_id),
            h.td[f"{name(one.host)}:{one.port}"],
            h.td[name(one.rack or "–")],
            h.td["controller" if one.is_controller else ""],
        ]
        for one in found.brokers
    ]
    heads = [head("broker", is_number=True), head("address"), head("rack"), head("")]
    return [
        h.div(".title")[h.h1[name(found.cluster_id or "Cluster")]],
        h.dl(".figures")[h.div[h.dt["Source"], h.dd[found.source.value, h.small[f" {_SOURCES[found.source.value]}"]]]],
        _list("What this source cannot tell", UNKNOWN_OF[found.source]),
        _list("What could not be had", [words.problem(one) for one in found.problems]),
        table(f"Brokers, {len(rows)}", heads, rows),
    ]


def _list(title: str, texts: Iterable[str]) -> Node:
    found = list(texts)
    return [h.h2[title], h.ul[[h.li[one] for one in found]]] if found else None
