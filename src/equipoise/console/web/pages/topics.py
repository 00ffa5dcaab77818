"""All topics of the cluster, and one of them with its owners in each group that reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import htpy as h

from equipoise.console import words
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.layout import Node, head, name, number, table
from equipoise.console.web.timeline import group_address
from equipoise.views.model import ClusterView, GroupView, Problem, ReplicatedPartition, TopicView
from equipoise.views.plain import iso
from equipoise.views.records import LONGEST, Shown
from equipoise.watching.topic_details import RecordView, TopicDetails

_STREAM = "/api/groups/stream"
_LISTED = 1_000
_UNITS = ("B", "kB", "MB", "GB", "TB")
_KILO = 1000
_FINE = 10  # rates below it have a decimal
Lags = dict[str, int | None]  # of a topic, by group


def content(rows_of_topics: Node) -> Node:
    """The page of all topics. Its rows follow the stream."""
    return [h.div(".title")[h.h1["Topics"]], h.div(id="list", data_stream=_STREAM)[rows_of_topics]]


def rows(cluster: ClusterView, topics: Sequence[TopicView]) -> Node:
    """A row for each topic, those of the brokers themselves last."""
    lags = _lags(cluster.groups)
    known = {one.name for one in topics}
    made = [*topics, *(_only_read(topic) for topic in sorted(lags.keys() - known))]
    if not made:
        return h.p(".quiet")["No topic was seen yet."]
    heads = [
        head("topic"),
        head("partitions", is_number=True),
        head("replicas", is_number=True, is_optional=True),
        head("records", is_number=True),
        head("size", is_number=True, is_optional=True),
        head("in a second", is_number=True, is_optional=True),
        head("groups with lag"),
    ]
    ordered = sorted(made, key=lambda one: (one.is_internal, one.name))
    more = len(ordered) - _LISTED
    return [
        table(f"Topics, {len(ordered):,}", heads, [_row(one, lags.get(one.name, {})) for one in ordered[:_LISTED]]),
        more > 0 and h.p(".quiet")[f"and {more:,} more"],
    ]


def _only_read(topic: str) -> TopicView:
    """One that a group has committed on, and the metadata does not have: it is new, or gone."""
    return TopicView(name=topic, is_internal=False, partitions=())


def _lags(groups: Iterable[GroupView]) -> dict[str, Lags]:
    found: dict[str, Lags] = defaultdict(dict)
    for group in groups:
        for one in group.partitions:
            lags = found[one.topic]
            before = lags.get(group.group_id, 0)
            lags[group.group_id] = None if before is None or one.lag is None else before + one.lag
    return found


def _row(one: TopicView, lags: Lags) -> Node:
    replicas = {len(place.replica_nodes) for place in one.partitions}
    return h.tr[
        h.td(".name")[
            h.a(href=f"/topics/{quote(one.name, safe='')}")[name(one.name)],
            one.is_internal and h.small(".quiet")[" internal"],
        ],
        number(len(one.partitions) or None),
        h.td(".number.optional")[str(max(replicas)) if replicas else "–"],
        number(one.records if one.partitions else None),
        h.td(".number.optional")[size(one.size_bytes)],
        h.td(".number.optional")[rate(one.per_second)],
        h.td[_groups(lags)],
    ]


def _groups(lags: Lags) -> Node:
    found: list[Node] = []
    for group_id, lag in sorted(lags.items()):
        found += [", "] if found else []
        found += [h.a(href=group_address(group_id))[name(group_id)], " –" if lag is None else f" {lag:,}"]
    return found or h.span(".quiet")["none"]


def size(found: int | None) -> str:
    """Bytes in the unit that fits."""
    if found is None:
        return "–"
    value, place = float(found), 0
    while value >= _KILO and place < len(_UNITS) - 1:
        value, place = value / _KILO, place + 1
    return f"{value:.1f} {_UNITS[place]}" if place else f"{found} B"


def rate(per_second: float | None) -> str:
    """Records in a second."""
    if per_second is None:
        return "–"
    return f"{per_second:,.1f}" if 0 < per_second < _FINE else f"{per_second:,.0f}"


# -- one topic


def page_of(wanted: str, tables: Node) -> Node:
    """The page of one topic. Its tables follow the stream."""
    return [h.div(".title")[h.h1[name(wanted)]], h.div(id="list", data_stream=_STREAM)[tables]]


def topic(cluster: ClusterView, topics: Sequence[TopicView], wanted: str) -> Node | None:
    """Its partitions, then their owner in each group; None if neither metadata nor a group knows it."""
    found = next((one for one in topics if one.name == wanted), None)
    groups = [one for one in cluster.groups if any(place.topic == wanted for place in one.partitions)]
    if found is None and not groups:
        return None
    nobody = h.p(".quiet")["No group reads it."]
    return [found and _partitions(found), [_of_group(one, wanted) for one in groups] or nobody]


def details(found: TopicDetails | None) -> Node:
    """Configs that differ from the defaults, and the last records if the console may show them."""
    if found is None:
        return None
    return [_configs(found.configs), _records(found.records)]


def _configs(found: Mapping[str, str] | Problem | None) -> Node:
    if found is None:
        return None
    if isinstance(found, Problem):
        return [h.h2["Configs"], h.p(".quiet")[words.problem(found)]]
    if not found:
        return [h.h2["Configs"], h.p(".quiet")["All have the broker's defaults."]]
    rows_of_configs = [h.tr[h.td[name(key)], h.td[name(value)]] for key, value in sorted(found.items())]
    return table("Configs that differ from the broker's defaults", [head("config"), head("value")], rows_of_configs)


def _records(found: Sequence[RecordView] | Problem | None) -> Node:
    if found is None:
        return None
    if isinstance(found, Problem):
        return [h.h2["Last records"], h.p(".quiet")[words.problem(found)]]
    heads = [
        head("partition", is_number=True),
        head("offset", is_number=True),
        head("time", is_optional=True),
        head("key"),
        head("value"),
    ]
    return table(f"Last records, {len(found)}", heads, [_record(one) for one in found])


def _record(one: RecordView) -> Node:
    return h.tr[
        number(one.partition),
        number(one.offset),
        h.td(".optional")[iso(one.at)],
        h.td(".payload")[_payload(one.key)],
        h.td(".payload")[_payload(one.value)],
    ]


def _payload(one: Shown) -> Node:
    if one.kind == "null":
        return h.span(".quiet")["null"]
    is_plain = one.kind == "text" and one.size < LONGEST
    return [h.code[one.text], not is_plain and h.small(".quiet")[f" {one.kind}, {size(one.size)}"]]


def _partitions(found: TopicView) -> Node:
    heads = [
        head("partition", is_number=True),
        head("leader", is_number=True),
        head("replicas"),
        head("in sync", is_optional=True),
        head("start", is_number=True),
        head("end", is_number=True),
    ]
    told = ", ".join(
        text for text in (_told(size(found.size_bytes), ""), _told(rate(found.per_second), " in/s")) if text
    )
    title = f"{len(found.partitions):,} partitions{', ' + told if told else ''}"
    return table(title, heads, [_partition(one) for one in found.partitions[:_LISTED]])


def _told(text: str, unit: str) -> str:
    return "" if text == "–" else text + unit


def _partition(one: ReplicatedPartition) -> Node:
    return h.tr[
        number(one.partition),
        number(one.leader_id) if one.leader_id is not None else h.td(".number")["no leader"],
        h.td[", ".join(map(str, one.replica_nodes))],
        h.td(".optional")[", ".join(map(str, one.isr_nodes))],
        number(one.log_start),
        number(one.log_end),
    ]


def _of_group(group: GroupView, wanted: str) -> Node:
    owners = Owners()
    owners.learn(group)
    heads = [
        head("partition", is_number=True),
        head("committed", is_number=True),
        head("end", is_number=True),
        head("lag", is_number=True),
        head("owner"),
    ]
    found = [one for one in group.partitions if one.topic == wanted]
    rows_of_group = [
        h.tr[
            number(one.partition),
            number(one.committed),
            number(one.log_end),
            number(one.lag),
            h.td[owners.of(one.member_id).name if one.member_id else "nobody"],
        ]
        for one in found[:_LISTED]
    ]
    return [
        h.h2[h.a(href=group_address(group.group_id))[name(group.group_id)]],
        table(f"Partitions in {name(group.group_id)}", heads, rows_of_group),
    ]
