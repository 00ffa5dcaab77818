"""What stands below on the page of a group: events, and settings as far as they can be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import htpy as h

from equipoise.console import words
from equipoise.console.tables import counted
from equipoise.console.web.pages.layout import Node, head, name, table
from equipoise.console.web.timeline import clock
from equipoise.coordinator.events import CommitRefused, Event, MemberFenced, MemberLeft
from equipoise.views.model import GroupType, GroupView, MemberView, RebalanceView, Source

TABS = (
    ("members", "Members"),
    ("rebalances", "Rebalances"),
    ("offsets", "Offsets and lag"),
    ("events", "Events"),
    ("settings", "Settings as seen"),
)
EVENTS = 100  # rows; the rest is counted
_KINDS = {MemberFenced: "fenced", CommitRefused: "refused", MemberLeft: "gone"}
_HOSTS = 5


def tabs() -> Node:
    """Leads to the parts below; they are all there, also on paper."""
    return h.nav(".tabs.wide", aria_label="parts of this page")[[h.a(href=f"#{place}")[title] for place, title in TABS]]


# -- events


def events(view: GroupView, found: Sequence[Event]) -> Node:
    """Fenced members, refused commits and members that are gone, the newest first."""
    shown = list(reversed(found))[:EVENTS]
    more = len(found) - len(shown)
    heads = [head("time, UTC"), head("what"), head("in words")]
    rows = [_event(one) for one in shown]
    return [
        table(f"Events, {len(found):,}, the newest first", heads, rows),
        more > 0 and h.p(".quiet")[f"and {more:,} older ones"],
        view.source is not Source.JOURNAL
        and h.p(".quiet")["Only the journal of our broker tells of fenced members and refused commits."],
    ]


def _event(one: Event) -> Node:
    return h.tr[h.td[clock(one.at, with_ms=True)], h.td[_KINDS.get(type(one), "deleted")], h.td[words.event(one)]]


def refused_meanwhile(one: RebalanceView, found: Iterable[Event]) -> Node:
    """On the page of a rebalance: the commits that were refused while it ran."""
    if one.started is None:
        return None
    ended = one.at
    rows = [_event(event) for event in found if isinstance(event, CommitRefused) and one.started <= event.at <= ended]
    heads = [head("time, UTC"), head("what"), head("in words")]
    return table("Commits that were refused meanwhile", heads, rows[:EVENTS]) if rows else None


# -- settings


def settings(view: GroupView) -> Node:
    """By Kafka's names, where a coordinator or a record tells them."""
    of = len(view.members)
    static = sum(one.group_instance_id is not None for one in view.members)
    rows = [
        ("group.protocol", view.type.value),
        ("group.remote.assignor" if view.type is GroupType.CONSUMER else "partition.assignment.strategy",
         name(view.protocol or "–")),
        ("session.timeout.ms", _spread(one.session_timeout_ms for one in view.members)),
        ("max.poll.interval.ms", _spread(one.rebalance_timeout_ms for one in view.members)),
        ("group.instance.id", f"{static:,} of {counted(of, 'member')} are static" if of else "–"),
        ("topics", _topics(view)),
        ("hosts", _hosts(view)),
    ]  # fmt: skip
    heads = [head("setting"), head("value")]
    return table("Settings as seen from outside", heads, [h.tr[h.td[title], h.td[text]] for title, text in rows])


def setting_of(one: MemberView) -> tuple[object, ...]:
    """What the settings of a group are made of."""
    return one.session_timeout_ms, one.rebalance_timeout_ms, one.group_instance_id, one.topics, one.client_host


def _spread(found: Iterable[int | None]) -> str:
    """One value, or each with the number of members that have it. Zero is what a coordinator of Kafka's leaves out."""
    counts = Counter(found)
    if not counts or set(counts) == {None}:
        return "–"
    if len(counts) == 1:
        return words.duration(next(iter(counts)) or 0)
    return ", ".join(
        f"{'unknown' if value is None else words.duration(value)} ({counted(count, 'member')})"
        for value, count in counts.most_common()
    )


def _topics(view: GroupView) -> str:
    found = sorted({topic for one in view.members for topic in one.topics})
    return _some([name(one) for one in found])


def _hosts(view: GroupView) -> str:
    return _some(sorted({name(one.client_host.lstrip("/")) for one in view.members}))


def _some(found: Sequence[str]) -> str:
    more = len(found) - _HOSTS
    return (", ".join(found[:_HOSTS]) or "–") + (f" and {more:,} more" if more > 0 else "")
