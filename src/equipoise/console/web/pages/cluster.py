"""The cluster itself: brokers, the source in use, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterable

import htpy as h

from equipoise.console import words
from equipoise.console.commands.cluster import UNKNOWN_OF
from equipoise.console.web.broker_figures import ApiFigures, BrokerFigures
from equipoise.console.web.pages.layout import Frame, Node, head, name, number, table
from equipoise.console.web.pages.topics import rate, size

_SOURCES = {
    "journal": "the journal of this broker (__rebalances): causes, phases and gaps as its coordinator noted them",
    "offsets_topic": "group records of __consumer_offsets: who owned what; causes are concluded",
    "polling": "questions to the brokers; what happens between two of them is seen as one",
}


def content(frame: Frame, rows: Node) -> Node:
    """The page. Its tables follow the stream."""
    title = "Cluster" if frame.cluster is None else name(frame.cluster.cluster_id or "Cluster")
    return [h.div(".title")[h.h1[title]], h.div(id="list", data_stream="/api/groups/stream")[rows]]


def tables(frame: Frame, figures: BrokerFigures | None) -> Node:
    """Brokers, the source in use, what it cannot tell, and what a broker of ours says of itself."""
    found = frame.cluster
    if found is None:
        return h.p(".quiet")["Asking the cluster …"]
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
        h.dl(".figures")[h.div[h.dt["Source"], h.dd[found.source.value, h.small[f" {_SOURCES[found.source.value]}"]]]],
        _list("What this source cannot tell", UNKNOWN_OF[found.source]),
        _list("What could not be had", [words.problem(one) for one in found.problems]),
        table(f"Brokers, {len(rows)}", heads, rows),
        _figures(figures),
    ]


def _figures(found: BrokerFigures | None) -> Node:
    """Of the broker whose address of metrics the console was given."""
    if found is None:
        return None
    if found.problem is not None:
        return [h.h2["Figures of the broker"], h.p(".quiet")[name(found.problem)]]
    delay = "–" if found.loop_delay_ms is None else f"{found.loop_delay_ms:.1f} ms"
    heads = [
        head("request"),
        head("count", is_number=True),
        head("in a second", is_number=True),
        head("mean time", is_number=True),
    ]
    return [
        h.h2["Figures of the broker"],
        h.dl(".figures")[
            h.div[h.dt["Connections"], h.dd["–" if found.connections is None else f"{found.connections:,}"]],
            h.div[h.dt["Memory"], h.dd[size(found.memory_bytes)]],
            h.div[h.dt["Logs"], h.dd[size(found.log_bytes)]],
            h.div[h.dt["Loop delay"], h.dd[delay]],
        ],
        table(f"Requests by API, {len(found.apis)}", heads, [_api(one) for one in found.apis]),
    ]


def _api(one: ApiFigures) -> Node:
    return h.tr[
        h.td[name(one.api)],
        number(one.requests),
        h.td(".number")[rate(one.per_second)],
        h.td(".number")["–" if one.mean_ms is None else f"{one.mean_ms:.2f} ms"],
    ]


def _list(title: str, texts: Iterable[str]) -> Node:
    found = list(texts)
    return [h.h2[title], h.ul[[h.li[one] for one in found]]] if found else None
