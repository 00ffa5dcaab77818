"""One group: figures, the timeline, why it rebalanced, and tables of members, rebalances and offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import htpy as h

from equipoise.console import words
from equipoise.console.web.kept import Kept
from equipoise.console.web.lanes import dark_ms, lanes
from equipoise.console.web.live import Told
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages import deadlines
from equipoise.console.web.pages.action import links as action_links
from equipoise.console.web.pages.groups import health_badge, protocol, state_badge
from equipoise.console.web.pages.layout import Node, first_rows, head, name, number, table
from equipoise.console.web.pages.more import EVENTS, events, setting_of, settings, tabs
from equipoise.console.web.pages.rebalance import helps, panel, title_of
from equipoise.console.web.timeline import KINDS, address, clock, group_address, kind_of, running
from equipoise.views.model import GroupView, MemberView, Ms, PartitionLag, RebalanceView
from equipoise.wire.text import partitions

LISTED = 200  # rows of a table; the rest is counted
NEWEST = 40  # rebalances beside the timeline: the list changes with each
_PARTITION_HOUR = 3_600_000


def content(
    view: GroupView,
    owners: Owners,
    told: Told,
    *,
    seq: int,
    is_stale: bool,
    allows_actions: bool = False,
) -> Node:
    """The page's body. `seq`: the number of the last event of the group, by which the page asks for its picture."""
    parts = fragments(view, owners, told)
    return [
        h.div(".title", id="title")[_raw(parts["title"])],
        h.div(id="deleted", role="status")[_raw(parts["deleted"])],
        h.dl(".figures", id="figures")[_raw(parts["figures"])],
        h.div(id="problems")[_raw(parts["problems"])],
        h.div(class_={"group": True, "stale": is_stale})[
            _timeline(view, seq),
            h.div(".side")[
                h.aside(".card.why", id="why", aria_label="why")[_raw(parts["why"])],
                h.aside(id="deadlines", aria_label="deadlines")[_raw(parts["deadlines"])],
                h.aside(id="advice", aria_label="advice")[_raw(parts["advice"])],
            ],
            tabs(),
            h.section(".card.wide", id="members")[_raw(parts["members"])],
            h.section(".card.wide", id="rebalances")[_raw(parts["rebalances"])],
            h.section(".card.wide", id="offsets")[_raw(parts["offsets"])],
            h.section(".card.wide", id="events")[_raw(parts["events"])],
            h.section(".card.wide", id="settings")[_raw(parts["settings"])],
            allows_actions and told.deleted_at is None and action_links(view),
        ],
    ]


def fragments(view: GroupView, owners: Owners, told: Told, kept: Kept | None = None) -> dict[str, str]:
    """The parts that change with the group, by the id of their place. Long tables are rendered only if they change."""
    owners.learn(view)
    return {
        "title": _html(_title(view)),
        "deleted": _html(_deleted(told.deleted_at)),
        "figures": _html(_figures(view)),
        "problems": _html(_problems(view)),
        "deadlines": _html(deadlines.card(view, owners)),
        "members": _html(_members(view, owners)),
        **_seldom(view, owners, told, Kept() if kept is None else kept),
    }


def _seldom(view: GroupView, owners: Owners, told: Told, kept: Kept) -> dict[str, str]:
    """Parts that stay the same from one look to the next, by what they are made of."""
    seen = [setting_of(one) for one in view.members]
    newest, last = view.rebalances[-NEWEST:], told.events[-EVENTS:]
    found: dict[str, tuple[object, Callable[[], Node]]] = {
        "why": ((view.rebalances[-1:], view.seen_since), lambda: _why(view)),
        "advice": (told.advice, lambda: helps(told.advice)),
        "rebalances": ((newest, len(view.rebalances)), lambda: rebalances(view.rebalances, NEWEST)),
        "offsets": (view.partitions, lambda: offsets(view.partitions, owners)),
        "events": ((last, len(told.events), view.source), lambda: events(view, told.events)),
        "settings": ((seen, view.type, view.protocol), lambda: settings(view)),
    }
    return {name: kept.part(name, subject, partial(_rendered, make)) for name, (subject, make) in found.items()}


def _rendered(make: Callable[[], Node]) -> str:
    return _html(make())


def _raw(html: str) -> Node:
    from markupsafe import Markup

    return Markup(html)  # made by _html, which escapes


def _html(node: Node) -> str:
    return str(h.fragment[node])


def _title(view: GroupView) -> Node:
    under_way = running(view)
    return [
        h.h1[name(view.group_id)],
        state_badge(view.state),
        health_badge(view),
        under_way is not None and h.span(".badge.warn.running")[under_way],
    ]


def _figure(title: str, value: str, unit: str = "") -> Node:
    return h.div[h.dt[title], h.dd[value, unit and h.small[f" {unit}"]]]


def _figures(view: GroupView) -> Node:
    topics = len({one.topic for one in view.partitions if one.is_subscribed})
    count = sum(one.is_subscribed for one in view.partitions)
    lag = view.lag
    behind = (
        "" if lag.behind_ms is None else f"records, {'≥ ' if lag.is_at_least else '≈ '}{words.duration(lag.behind_ms)}"
    )
    clears = "" if lag.clears_in_ms is None else f", clears in {words.duration(lag.clears_in_ms)}"
    number_of = "Epoch" if view.type.value == "consumer" else "Generation"
    return [
        _figure("Members", f"{len(view.members):,}"),
        _figure("Partitions", f"{count:,}", f"in {topics} topic{'' if topics == 1 else 's'}"),
        _figure("Protocol", protocol(view)),
        _figure(number_of, "–" if view.generation is None else f"{view.generation:,}"),
        _figure("Lag", "–" if lag.lag is None else f"{lag.lag:,}", (behind or "records") + clears),
        _figure(
            "Rebalances", "–" if view.rebalances_last_hour is None else f"{view.rebalances_last_hour:,}", "an hour"
        ),
        _without_owner(view),
    ]


def _without_owner(view: GroupView) -> Node:
    if not any(one.dark for one in view.rebalances):
        return _figure("Without owner", "–" if view.rebalances else "0 ms")
    rows = lanes(view)
    began = min((lane[0][0] for lane in rows.values() if lane), default=view.as_of)
    span = view.as_of - began
    dark = dark_ms(rows.values(), view.as_of)
    whole = span * max(len(rows), 1) / _PARTITION_HOUR
    of = f"of {whole:,.0f} partition hours" if whole >= 2 else f"in {words.duration(span)}, all partitions together"
    return _figure("Without owner", words.duration(dark), of)


def _problems(view: GroupView) -> Node:
    return [h.p(".notice")[words.problem(one)] for one in view.problems]


def _timeline(view: GroupView, seq: int) -> Node:
    place = group_address(view.group_id)
    api = f"/api{place}"
    kinds = [h.li[h.i(class_=f"k-{kind}"), text] for kind, (_, text) in KINDS.items()]
    canvases = [
        h.canvas(data_part="head", aria_hidden="true"),
        h.div(data_part="scroll")[
            h.canvas(data_part="lanes", aria_hidden="true"),
            h.div(data_part="ring", hidden=True),
        ],
        h.canvas(data_part="foot", aria_hidden="true"),
        h.div(".running", data_part="now", hidden=True),
        h.div(data_part="cursor", hidden=True),
        h.div(data_part="tip", hidden=True),
    ]
    return h.section(".card", aria_label="timeline")[
        h.div(".tools")[
            h.h2["Who owned which partition, ", h.span(id="range")],
            h.button(type="button", data_act="earlier", aria_label="previous rebalance")["‹"],
            h.button(type="button", data_act="later", aria_label="next rebalance")["›"],
            h.button(type="button", data_act="nearer", aria_label="nearer")["+"],
            h.button(type="button", data_act="wider", aria_label="wider")["−"],
            h.button(type="button", data_act="all")["all"],
            h.label[
                "order ", h.select(id="order")[[h.option(value=one)[one] for one in ("owner", "partition", "lag")]]
            ],
            h.a(href=f"{place}/table")["as tables"],
        ],
        h.ul(".legend")[kinds, h.li[h.i(".k-red"), "no owner"]],
        h.div(
            id="timeline",
            role="application",
            tabindex="0",
            aria_label="ownership timeline",
            aria_describedby="timeline-help",
            data_api=api,
            data_words=str(seq),
            data_table=f"{place}/table",
        )[canvases],
        h.p(id="said", aria_live="polite"),
        h.p(".quiet", id="timeline-help")[
            "Arrows move, n and p go to the next and previous rebalance, Enter opens it, t shows the same as tables, "
            "? lists all keys."
        ],
        h.noscript[h.p["The timeline needs JavaScript; ", h.a(href=f"{place}/table")["the tables"], " do not."]],
    ]


def _why(view: GroupView) -> Node:
    if not view.rebalances:
        since = "" if view.seen_since is None else f" since {clock(view.seen_since)} UTC"
        return [h.h2["Why"], h.p(".quiet")[f"No rebalance{since}."]]
    return panel(view.rebalances[-1])


def _deleted(at: int | None) -> Node:
    if at is None:
        return None
    return h.p(".notice")[f"Deleted at {clock(at)} UTC. Its history stays for a while."]


# -- tables


def _members(view: GroupView, owners: Owners) -> Node:
    heads = [
        head("member"),
        head("host"),
        head("instance id", is_optional=True),
        head("partitions", is_number=True),
        head("they are", is_optional=True),
        head("lag", is_number=True),
        head("joined", is_optional=True),
        head("last heard", is_number=True, is_optional=True),
        head("session left", is_optional=True),
    ]
    rows = (_member(one, owners, view.as_of) for one in view.members)
    return first_rows(f"Members, {len(view.members):,}", heads, rows, len(view.members), listed=LISTED)


def _member(one: MemberView, owners: Owners, now: Ms) -> Node:
    owner = owners.of(one.member_id)
    heard = "–" if one.last_seen is None else f"{words.duration(max(now - one.last_seen, 0))} ago"
    timeout = "" if one.session_timeout_ms is None else f"of {words.duration(one.session_timeout_ms)}"
    return h.tr[
        h.td(".name")[swatch(owners, one.member_id), h.span(title=name(one.member_id))[owner.name]],
        h.td[name(one.client_host.lstrip("/"))],
        h.td(".optional")[name(one.group_instance_id or "–")],
        number(len(one.partitions)),
        h.td(".optional")[partitions(one.partitions) or "–"],
        number(one.lag),
        h.td(".optional")["–" if one.joined_at is None else clock(one.joined_at)],
        h.td(".number.optional")[heard],
        h.td(".optional", title=timeout or None)[deadlines.session(one, now)],
    ]


def swatch(owners: Owners, member_id: str) -> Node:
    """The colour of an owner."""
    return h.span(class_=f"swatch s{owners.of(member_id).slot}", aria_hidden="true")


def rebalances(found: tuple[RebalanceView, ...], most: int) -> Node:
    """The newest first."""
    heads = [
        head("time, UTC"),
        head("kind"),
        head("generation", is_number=True),
        head("why"),
        head("took", is_number=True, is_optional=True),
        head("moved", is_number=True, is_optional=True),
        head("stood still", is_number=True, is_optional=True),
    ]
    shown = list(reversed(found))[:most]
    more = len(found) - len(shown)
    return [
        table(f"Rebalances, {len(found):,}, the newest first", heads, [_rebalance(one) for one in shown]),
        more > 0 and h.p(".quiet")[f"and {more:,} older ones, all of them in the tables"],
    ]


def _rebalance(one: RebalanceView) -> Node:
    kind = kind_of(one)
    letter, text = KINDS[kind]
    return h.tr[
        h.td[h.a(href=address(one))[clock(one.at, with_ms=True)]],
        h.td[h.span(class_=f"kind k-{kind}", title=text, aria_label=text, role="img")[letter]],
        h.td(".number")[title_of(one)],
        h.td(".words")[words.why(one.cause)],
        h.td(".number.optional")["–" if one.duration_ms is None else words.duration(one.duration_ms)],
        number(len(one.moved), is_optional=True),
        number(None if one.dark is None else sum(dark.dark_ms > 0 for dark in one.dark), is_optional=True),
    ]


def offsets(found: tuple[PartitionLag, ...], owners: Owners) -> Node:
    """Offsets and lag, the largest lag first. What nobody subscribes to any more stands apart."""
    heads = [
        head("topic"),
        head("partition", is_number=True),
        head("committed", is_number=True),
        head("end", is_number=True, is_optional=True),
        head("lag", is_number=True),
        head("behind", is_number=True, is_optional=True),
        head("owner"),
    ]
    ordered = sorted(found, key=lambda one: (not one.is_subscribed, -(one.lag or 0), one.topic, one.partition))
    rows = (_offset(one, owners) for one in ordered)
    return first_rows("Offsets and lag, the largest first", heads, rows, len(ordered), listed=LISTED)


def _offset(one: PartitionLag, owners: Owners) -> Node:
    owner = [swatch(owners, one.member_id), owners.of(one.member_id).name] if one.member_id else "nobody"
    if one.problem is not None:
        owner = words.problem(one.problem)
    elif not one.is_subscribed:
        owner = "no member asks for it any more; not in the sum"
    return h.tr[
        h.td(".name")[h.a(href=f"/topics/{quote(one.topic, safe='')}")[name(one.topic)]],
        number(one.partition),
        number(one.committed),
        h.td(".number.optional")["–" if one.log_end is None else f"{one.log_end:,}"],
        number(one.lag),
        h.td(".number.optional")["–" if one.behind_ms is None else words.duration(one.behind_ms)],
        h.td[owner],
    ]
