"""Topics that groups read, one topic, and the cluster itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from urllib.parse import quote

import htpy as h

from equipoise.console import words
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.layout import Frame, Node, head, name, number, table
from equipoise.console.web.timeline import group_address
from equipoise.views.model import ClusterView, GroupView, PartitionLag

_SOURCES = {
    "journal": "the journal of this broker (__rebalances): causes, phases and gaps as its coordinator noted them",
    "offsets_topic": "group records of __consumer_offsets: who owned what; causes are concluded",
    "polling": "questions to the brokers; what happens between two of them is seen as one",
}


def topics(cluster: ClusterView) -> Node:
    """Every topic that a group has committed on, or has a member for."""
    by_topic: dict[str, list[tuple[GroupView, PartitionLag]]] = defaultdict(list)
    for group in cluster.groups:
        for one in group.partitions:
            by_topic[one.topic].append((group, one))
    heads = [
        head("topic"),
        head("partitions", is_number=True),
        head("records", is_number=True),
        head("groups with lag"),
    ]
    rows = [_topic_row(topic, found) for topic, found in sorted(by_topic.items())]
    return [h.div(".title")[h.h1["Topics"]], table(f"Topics that groups read, {len(rows):,}", heads, rows)]


def _topic_row(topic: str, found: list[tuple[GroupView, PartitionLag]]) -> Node:
    spans = {one.partition: (one.log_start, one.log_end) for _, one in found}
    known = all(start is not None and end is not None for start, end in spans.values())
    lags: dict[str, int | None] = {}
    for group, one in found:
        before = lags.get(group.group_id, 0)
        lags[group.group_id] = None if before is None or one.lag is None else before + one.lag
    return h.tr[
        h.td(".name")[h.a(href=f"/topics/{quote(topic, safe='')}")[name(topic)]],
        number(len(spans)),
        number(sum((end or 0) - (start or 0) for start, end in spans.values()) if known else None),
        h.td[_groups(lags)],
    ]


def _groups(lags: dict[str, int | None]) -> Node:
    found: list[Node] = []
    for group_id, lag in sorted(lags.items()):
        found += [", "] if found else []
        found += [h.a(href=group_address(group_id))[name(group_id)], " –" if lag is None else f" {lag:,}"]
    return found


def topic(cluster: ClusterView, wanted: str) -> Node | None:
    """The partitions of one topic, with their owner in each group; None if no group reads it."""
    groups = [one for one in cluster.groups if any(place.topic == wanted for place in one.partitions)]
    if not groups:
        return None
    return [h.div(".title")[h.h1[name(wanted)]], *(_of_group(one, wanted) for one in groups)]


def _of_group(group: GroupView, wanted: str) -> Node:
    owners = Owners()
    owners.learn(group)
    heads = [
        head("partition", is_number=True),
        head("start", is_number=True),
        head("end", is_number=True),
        head("committed", is_number=True),
        head("lag", is_number=True),
        head("owner"),
    ]
    rows = [
        h.tr[
            number(one.partition),
            number(one.log_start),
            number(one.log_end),
            number(one.committed),
            number(one.lag),
            h.td[owners.of(one.member_id).name if one.member_id else "nobody"],
        ]
        for one in group.partitions
        if one.topic == wanted
    ]
    return [h.h2[h.a(href=group_address(group.group_id))[name(group.group_id)]], table("Partitions", heads, rows)]


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
        _list("What this source cannot tell", found.unknown),
        _list("What could not be had", [words.problem(one) for one in found.problems]),
        table(f"Brokers, {len(rows)}", heads, rows),
    ]


def _list(title: str, texts: Iterable[str]) -> Node:
    found = list(texts)
    return [h.h2[title], h.ul[[h.li[one] for one in found]]] if found else None
