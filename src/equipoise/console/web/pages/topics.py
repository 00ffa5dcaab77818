"""All topics of the cluster, and one of them with its owners in each group that reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

import htpy as h

from equipoise.console import words
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.layout import Node, first_rows, head, name, number, table
from equipoise.console.web.timeline import group_address
from equipoise.views.model import ClusterView, GroupView, PartitionLag, Problem, ReplicatedPartition, TopicView
from equipoise.views.plain import time_of_record
from equipoise.views.records import LONGEST, Shown
from equipoise.watching.topic_details import RecordView, TopicDetails

_STREAM = "/api/groups/stream"
_LISTED = 1_000
_COLUMNS = 5  # groups beside each other; the others are named
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
    rows = (_row(one, lags.get(one.name, {})) for one in ordered)
    return first_rows(f"Topics, {len(ordered):,}", heads, rows, len(ordered), listed=_LISTED)


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


def topic(
    cluster: ClusterView, topics: Sequence[TopicView], wanted: str, told: TopicDetails | None = None
) -> Node | None:
    """What is set on it and lately came to it, then its partitions with their owner in each group; None if neither
    metadata nor a group knows it."""
    found = next((one for one in topics if one.name == wanted), None)
    groups = [one for one in cluster.groups if any(place.topic == wanted for place in one.partitions)]
    if found is None and not groups:
        return None
    more = len(groups) - _COLUMNS
    return [
        found and _figures(found, len(groups)),
        not groups and h.p(".quiet")["No group reads it."],
        details(told),
        _partitions(found, wanted, groups[:_COLUMNS]),
        more > 0 and h.p(".quiet")["Read by ", _links(groups[_COLUMNS:]), " too."],
    ]


def _figures(found: TopicView, groups: int) -> Node:
    figures = (
        ("Partitions", f"{len(found.partitions):,}"),
        ("Records", "–" if found.records is None else f"{found.records:,}"),
        ("Size", size(found.size_bytes)),
        ("In a second", rate(found.per_second)),
        ("Groups", str(groups)),
    )
    return h.dl(".figures")[[h.div[h.dt[title], h.dd[text]] for title, text in figures]]


def _links(groups: Iterable[GroupView]) -> list[Node]:
    found: list[Node] = []
    for one in groups:
        found += [", "] if found else []
        found.append(h.a(href=group_address(one.group_id))[name(one.group_id)])
    return found


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
    at = time_of_record(one.at)
    return h.tr[
        number(one.partition),
        number(one.offset),
        h.td(".optional")["–" if at is None else str(at)],
        h.td(".payload")[_payload(one.key)],
        h.td(".payload")[_payload(one.value)],
    ]


def _payload(one: Shown) -> Node:
    if one.kind == "null":
        return h.span(".quiet")["null"]
    is_plain = one.kind == "text" and one.size < LONGEST
    return [h.code[one.text], not is_plain and h.small(".quiet")[f" {one.kind}, {size(one.size)}"]]


class _Read(NamedTuple):
    """A group on the partitions of one topic."""

    group: GroupView
    owners: Owners
    places: dict[int, PartitionLag]


def _partitions(found: TopicView | None, wanted: str, groups: Sequence[GroupView]) -> Node:
    """A column for each group: who owns the partition there, and what it has still to read."""
    reading = [_read(one, wanted) for one in groups]
    known = {one.partition: one for one in found.partitions} if found else {}
    numbers = sorted(known.keys() | {number for one in reading for number in one.places})
    heads = [
        head("partition", is_number=True),
        head("leader", is_number=True),
        head("replicas", is_optional=True),
        head("in sync", is_optional=True),
        head("start", is_number=True, is_optional=True),
        head("end", is_number=True),
        head("size", is_number=True, is_optional=True),
        [h.th(scope="col")[_links([one.group])] for one in reading],
    ]
    rows = (_row_of(one, known.get(one), reading) for one in numbers)
    return first_rows("Partitions, and who owns them", heads, rows, len(numbers), listed=_LISTED)


def _read(group: GroupView, wanted: str) -> _Read:
    owners = Owners()
    owners.learn(group)
    return _Read(group, owners, {one.partition: one for one in group.partitions if one.topic == wanted})


def _row_of(partition: int, one: ReplicatedPartition | None, reading: Sequence[_Read]) -> Node:
    ends = [place.log_end for read in reading if (place := read.places.get(partition)) is not None]
    end = one.log_end if one is not None and one.log_end is not None else next(iter(ends), None)
    leader = None if one is None else one.leader_id
    return h.tr[
        number(partition),
        h.td(".number")["no leader"] if one is not None and leader is None else number(leader),
        h.td(".optional")["–" if one is None else ", ".join(map(str, one.replica_nodes))],
        h.td(".optional")["–" if one is None else ", ".join(map(str, one.isr_nodes))],
        h.td(".number.optional")["–" if one is None or one.log_start is None else f"{one.log_start:,}"],
        number(end),
        h.td(".number.optional")[size(None if one is None else one.size_bytes)],
        [_owned(read.places.get(partition), read.owners) for read in reading],
    ]


def _owned(place: PartitionLag | None, owners: Owners) -> Node:
    """Who owns a partition, and what waits there."""
    if place is None:
        return h.td(".quiet")["–"]
    lag = "lag unknown" if place.lag is None else f"{place.lag:,} behind" if place.lag else ""
    if place.member_id is None:
        return h.td[h.span(".quiet")["nobody"], lag and h.small(".quiet")[f" · {lag}"]]
    owner = owners.of(place.member_id)
    return h.td[h.span(class_=f"swatch s{owner.slot}"), owner.name, lag and h.small(".quiet")[f" · {lag}"]]
