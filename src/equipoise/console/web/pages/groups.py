"""All groups: a row for each, with the sentence of its health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import htpy as h
from markupsafe import Markup

from equipoise.console import words
from equipoise.console.web.pages.layout import Frame, Node, head, name, notices, table
from equipoise.console.web.timeline import LagSample, group_address
from equipoise.views.model import GroupType, GroupView, HealthKind

ROWS = 100  # on a page
SAMPLES = 60  # of lag, in a spark
_MOST_ROWS = 2_000  # kept as text
SORTS = ("name", "lag", "rebalances")
HOURS, BUCKETS = 6, 12
_GOOD, _WARN, _BAD, _NONE = "good", "warn", "bad", "none"
_HEALTH = {
    HealthKind.FINE: _GOOD,
    HealthKind.UNKNOWN: _NONE,
    HealthKind.UNEVEN: _WARN,
    HealthKind.RESTLESS: _WARN,
    HealthKind.BEHIND: _WARN,
}
_STATES = {"Stable": _GOOD, "Empty": _NONE, "Dead": _BAD}
Lags = Callable[[str], Sequence[LagSample]]


class Query(NamedTuple):
    """What a reader wants to see of the list."""

    q: str = ""
    state: str = ""
    sort: str = "name"
    only: bool = False
    page: int = 1

    @classmethod
    def of(cls, given: Any) -> Query:
        """From the address. What makes no sense there is left out."""
        sort = given.get("sort", "name")
        number = given.get("page", "1")
        return cls(
            q=given.get("q", "")[:200],
            state=given.get("state", "")[:40],
            sort=sort if sort in SORTS else "name",
            only=given.get("only", "") == "1",
            page=max(int(number), 1) if number.isdecimal() and len(number) < 7 else 1,
        )

    def address(self, **changed: Any) -> str:
        """The address of the list with some of it changed."""
        values = self._replace(**changed)._asdict()
        kept = {key: int(value) if isinstance(value, bool) else value for key, value in values.items() if value}
        return f"/groups?{urlencode(kept)}"


def chosen(groups: Sequence[GroupView], query: Query) -> list[GroupView]:
    """Those that fit, in the order that was asked for."""
    found = [
        one
        for one in groups
        if query.q.lower() in one.group_id.lower()
        and (not query.state or one.state == query.state)
        and (not query.only or one.health.needs_attention)
    ]
    if query.sort == "lag":
        return sorted(found, key=lambda one: (-(one.lag.lag or 0), one.group_id))
    if query.sort == "rebalances":
        return sorted(found, key=lambda one: (-(one.rebalances_last_hour or 0), one.group_id))
    return sorted(found, key=lambda one: one.group_id)


def shown(groups: Sequence[GroupView], query: Query) -> list[GroupView]:
    """Those that fit, of one page."""
    return _on_page(chosen(groups, query), query)


def _on_page(found: list[GroupView], query: Query) -> list[GroupView]:
    first = (query.page - 1) * ROWS
    return found[first : first + ROWS]


def content(frame: Frame, query: Query, lags: Lags, cache: RowCache | None = None) -> Node:
    """The page's body."""
    return [
        h.div(".title")[h.h1["Groups"]],
        _form(frame, query),
        h.div(id="list", data_stream="/api/groups/stream")[rows(frame, query, lags, cache)],
    ]


def _form(frame: Frame, query: Query) -> Node:
    states = sorted({one.state for one in frame.cluster.groups if one.state} if frame.cluster else set())
    options = [h.option(value="")["all"], *(h.option(value=one, selected=one == query.state)[one] for one in states)]
    return h.form(".filter", method="get", action="/groups", role="search")[
        h.label["filter ", h.input(id="filter", name="q", value=query.q, autocomplete="off")],
        h.label["state ", h.select(name="state")[options]],
        h.label[
            h.input(type="checkbox", name="only", value="1", checked=query.only), " only those that need attention"
        ],
        h.input(type="hidden", name="sort", value=query.sort),
        h.button(type="submit")["show"],
    ]


class RowCache:
    """Rows as text: most groups are as they were when the list was last rendered."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[GroupView, Node]] = {}

    def row(self, view: GroupView, lags: Lags, now: int) -> Node:
        """Of this view, made once."""
        found = self._rows.get(view.group_id)
        if found is not None and found[0] is view:
            return found[1]
        if len(self._rows) >= _MOST_ROWS:
            self._rows.clear()
        made = Markup(str(row(view, lags(view.group_id), now)))  # htpy has escaped it
        self._rows[view.group_id] = view, made
        return made


def rows(frame: Frame, query: Query, lags: Lags, cache: RowCache | None = None) -> Node:
    """The part that follows the stream."""
    kept = cache or RowCache()
    if frame.cluster is None:
        return h.p(".quiet")["Asking the cluster for its groups …"] if frame.trouble is None else notices(frame)
    if not frame.cluster.groups:
        return _none_yet(frame)
    found = chosen(frame.cluster.groups, query)
    need = sum(one.health.needs_attention for one in frame.cluster.groups)
    total = (
        f"{len(frame.cluster.groups):,} group{'' if len(frame.cluster.groups) == 1 else 's'}, {need:,} need attention"
    )
    shown = f"; {len(found):,} fit the filter" if len(found) != len(frame.cluster.groups) else ""
    body = [kept.row(one, lags, frame.now) for one in _on_page(found, query)]
    return [table(f"{total}{shown}", _heads(query), body), _pages(query, len(found))]


def _none_yet(frame: Frame) -> Node:
    servers = name(frame.bootstrap)
    return h.div(".card")[
        h.h2["No consumer group yet"],
        h.p["A group appears here as soon as a member joins. These two commands make one:"],
        h.pre[
            f"equipoise topics create orders --partitions 12 --bootstrap-servers {servers}\n"
            f"kcat -b {servers} -G my-group orders"
        ],
    ]


def _heads(query: Query) -> list[Node]:
    def by(sort: str, text: str, *, is_number: bool = False) -> Node:
        order = "descending" if sort != "name" else "ascending"
        aria = order if query.sort == sort else None
        return h.th(scope="col", class_={"number": is_number}, aria_sort=aria)[
            h.a(href=query.address(sort=sort, page=1))[text]
        ]

    return [
        by("name", "group"),
        head("state"),
        head("protocol", is_optional=True),
        head("members", is_number=True, is_optional=True),
        by("lag", "lag", is_number=True),
        head("behind", is_number=True, is_optional=True),
        by("rebalances", "rebalances an hour", is_number=True),
        head("health"),
    ]


def row(view: GroupView, lag: Sequence[LagSample], now: int) -> Node:
    """One group."""
    behind = view.lag.behind_ms
    prefix = "≥ " if view.lag.is_at_least else ""
    return h.tr[
        h.td(".name")[h.a(href=group_address(view.group_id))[name(view.group_id) or "(no name)"]],
        h.td[state_badge(view.state)],
        h.td(".optional")[protocol(view)],
        h.td(".number.optional")[f"{len(view.members):,}" if view.state else "–"],
        h.td(".number")["–" if view.lag.lag is None else f"{view.lag.lag:,} ", spark(lag)],
        h.td(".number.optional")["–" if behind is None else prefix + words.duration(behind)],
        h.td(".number")[bars(view, now), _rate(view)],
        h.td[health_badge(view)],
    ]


def _rate(view: GroupView) -> str:
    return "–" if view.rebalances_last_hour is None else f" {view.rebalances_last_hour:,}"


def protocol(view: GroupView) -> str:
    """The assignor, and the protocol where it is the new one."""
    text = name(view.protocol or "–")
    return f"{text} (KIP-848)" if view.type is GroupType.CONSUMER else text


def state_badge(state: str | None) -> Node:
    """The state, with a shape beside the colour."""
    return h.span(class_=f"badge {_STATES.get(state or '', _WARN if state else _NONE)}")[state or "unknown"]


def health_badge(view: GroupView) -> Node:
    """The sentence of health, with a shape beside the colour."""
    return h.span(class_=f"badge {_HEALTH.get(view.health.kind, _BAD)}")[words.health(view.health)]


def spark(lag: Sequence[LagSample]) -> Node:
    """Lag in a hand's breadth."""
    known = [one for one in lag if one.records is not None]
    if len(known) < 2:
        return None
    most = max(one.records or 0 for one in known) or 1
    first, span = known[0].at, max(known[-1].at - known[0].at, 1)
    points = " ".join(
        f"{(one.at - first) / span * 88 + 1:.1f},{19 - (one.records or 0) / most * 18:.1f}" for one in known
    )
    return h.svg(".spark", viewBox="0 0 90 20", aria_hidden="true")[h.polyline(points=points)]


def bars(view: GroupView, now: int) -> Node:
    """Rebalances of the last six hours."""
    counts = [0] * BUCKETS
    width = HOURS * 3_600_000 // BUCKETS
    for one in view.rebalances:
        place = BUCKETS - 1 - (now - one.at) // width
        if 0 <= place < BUCKETS:
            counts[place] += 1
    if not any(counts):
        return None
    most = max(counts)
    found = [
        h.rect(x=f"{place * 7.5:.1f}", y=f"{20 - count / most * 19:.1f}", width="6", height=f"{count / most * 19:.1f}")
        for place, count in enumerate(counts)
        if count
    ]
    return h.svg(".spark", viewBox="0 0 90 20", aria_hidden="true")[found]


def _pages(query: Query, total: int) -> Node:
    if total <= ROWS:
        return None
    last = (total + ROWS - 1) // ROWS
    return h.nav(aria_label="pages of the list")[
        h.p[
            query.page > 1 and h.a(href=query.address(page=query.page - 1))["previous"],
            f" page {query.page} of {last} ",
            query.page < last and h.a(href=query.address(page=query.page + 1))["next"],
        ]
    ]
