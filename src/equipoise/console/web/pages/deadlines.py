"""Deadlines of members: bars that drain to a session's end or, in a rebalance, to the time until which it waits."""

from __future__ import annotations

import htpy as h

from equipoise.console import words
from equipoise.console.tables import counted
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.layout import Node, and_more
from equipoise.views.model import GroupView, MemberView, Ms

_LISTED = 7
_LOW = 3  # a session is low when less than one part in so many is left
_WORDS = {"join": "has not rejoined", "sync": "has not asked for its partitions", "revocation": "has to give up some"}


def card(view: GroupView, owners: Owners) -> Node:
    """Who is waited for, or whose session is about to end. Nothing in a calm group: it would take space."""
    waited = [one for one in view.members if one.awaiting is not None and one.awaited_until is not None]
    if waited:
        waited.sort(key=lambda one: one.awaited_until or 0)
        rows = [_row(_name(one, owners), _waited(one, view.as_of), _WORDS.get(one.awaiting or "")) for one in waited]
        return _card(f"Waits for {counted(len(waited), 'member')}", rows)
    low = [one for one in view.members if is_low(one, view.as_of)]
    low.sort(key=lambda one: one.session_ends or 0)
    rows = [_row(_name(one, owners), session(one, view.as_of), None) for one in low]
    return _card("Close to their session's end", rows) if rows else None


def _card(title: str, rows: list[Node]) -> Node:
    return h.div(".card")[
        h.h2[title],
        h.table(".bars")[h.tbody[rows[:_LISTED]]],
        and_more(len(rows) - _LISTED),
    ]


def _row(who: str, bar: Node, why: str | None) -> Node:
    return h.tr[h.td[who, why and h.small(".quiet")[f" {why}"]], h.td[bar]]


def _name(one: MemberView, owners: Owners) -> str:
    return owners.of(one.member_id).name


def is_low(one: MemberView, now: Ms) -> bool:
    """Whether less than a third of the session is left."""
    total = _session_ms(one)
    return total is not None and one.session_ends is not None and (one.session_ends - now) * _LOW < total


def session(one: MemberView, now: Ms) -> Node:
    """What is left of a session; a dash where nobody tells."""
    total = _session_ms(one)
    if one.session_ends is None or total is None:
        return "–"
    return drain(one.session_ends - now, total, is_low=is_low(one, now))


def _waited(one: MemberView, now: Ms) -> Node:
    left = (one.awaited_until or now) - now
    return drain(left, max(one.rebalance_timeout_ms or 0, left, 1), is_low=True)


def _session_ms(one: MemberView) -> int | None:
    if one.session_timeout_ms is not None:
        return max(one.session_timeout_ms, 1)
    if one.session_ends is None or one.last_seen is None:
        return None
    return max(one.session_ends - one.last_seen, 1)


def drain(left_ms: int, total_ms: int, *, is_low: bool) -> Node:
    """A bar and its figure. Script lets it drain: a style attribute is not allowed."""
    left = max(left_ms, 0)
    width = min(left / total_ms, 1) * 100
    return h.span(class_={"drain": True, "low": is_low}, data_left=str(left))[
        h.svg(".bar", viewBox="0 0 100 9", preserveAspectRatio="none", aria_hidden="true")[
            h.rect(x="0", y="0", width=f"{width:.1f}", height="9")
        ],
        h.span[words.duration(left)],
    ]
