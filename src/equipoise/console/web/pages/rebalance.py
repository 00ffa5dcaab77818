"""One rebalance: the explanation, its phases, who was slow, what moved, what stood still."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import htpy as h

from equipoise.console import words
from equipoise.console.web.live import Told
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.layout import Node, head, name, table
from equipoise.console.web.pages.more import refused_meanwhile
from equipoise.console.web.timeline import address, clock, group_address
from equipoise.views.advice import Advice
from equipoise.views.model import GroupView, RebalanceView
from equipoise.views.waterfall import Track, tracks

_TITLE = slice(2, 10)  # of a line of words.explain
_TEXT = 11
_TRACKS = 7  # in the panel
_LISTED = 500
_CLASSIC, _TARGET = ("rejoined", "Who rejoined"), ("told", "Who was told")
_PHASES = ("detect", "join", "assign", "sync")
_HATCH = h.defs[  # of a time in which nobody had noticed anything yet
    h.pattern(id="hatch", width="1.6", height="9", patternUnits="userSpaceOnUse", patternTransform="skewX(-8)")[
        h.rect(".b-hatch", width="0.8", height="9")
    ]
]


def title_of(one: RebalanceView) -> str:
    """The old and the new generation."""
    old = "" if one.old_generation is None else f"{one.old_generation} → "
    return f"{old}{'–' if one.generation is None else one.generation}"


def explained(one: RebalanceView) -> list[tuple[str, str]]:
    """The rows of `groups explain`, in the same words."""
    lines = words.explain(one)[1:]
    return [(line[_TITLE].strip(), line[_TEXT:].replace("   ", " · ")) for line in lines]


def panel(one: RebalanceView) -> Node:
    """Beside the timeline."""
    took = "" if one.duration_ms is None else f", took {words.duration(one.duration_ms)}"
    number_of = "Epoch" if one.is_target else "Generation"
    return [
        h.h2[f"{number_of} {title_of(one)}"],
        h.p(".quiet")[f"{clock(one.at, with_ms=True)} UTC{took} · ", h.a(href=address(one))["link"]],
        _explanation(one),
        _waterfall(one, _TRACKS),
    ]


def _explanation(one: RebalanceView) -> Node:
    return h.dl[[[h.dt[title], h.dd[title == "phases" and _phases(one), text]] for title, text in explained(one)]]


def _phases(one: RebalanceView) -> Node:
    """A bar of the phases that took time."""
    if one.phases is None:
        return None
    spans = [getattr(one.phases, f"{name}_ms") or 0 for name in _PHASES]
    total = sum(spans)
    if not total:
        return None
    found, left = [], 0.0
    for phase, span in zip(_PHASES, spans, strict=True):
        width = span / total * 100
        if width > 0:
            found.append(
                h.rect(class_=f"b-{phase}", x=f"{left:.2f}", y="0", width=f"{max(width, 0.6):.2f}", height="9")
            )
        left += width
    return h.svg(".bar", viewBox="0 0 100 9", preserveAspectRatio="none", aria_hidden="true")[_HATCH, found]


def _waterfall(one: RebalanceView, most: int) -> Node:
    """A row for each member: when it came, and when it had its assignment. The slowest first."""
    found = tracks(one)[:most]
    if not found:
        return None
    longest = max(1, one.duration_ms or 0, *(track.done_ms or track.came_ms or 0 for track in found))
    came, title = _TARGET if one.is_target else _CLASSIC
    rows = [
        h.tr[
            h.td[words.member(track.member_id)],
            h.td[
                h.svg(".bar", viewBox="0 0 100 9", preserveAspectRatio="none", aria_hidden="true")[
                    [
                        h.rect(class_=f"b-{kind}", x=f"{x:.1f}", y="0", width=f"{max(width, 1):.1f}", height="9")
                        for kind, x, width in _pieces(one, track, 100 / longest)
                    ]
                ]
            ],
            _after(track.came_ms, "–"),
            _after(track.done_ms, "not yet" if track.is_waited_for else "–"),
        ]
        for track in found
    ]
    heads = [head("member"), head("way"), head(came, is_number=True), head("has it", is_number=True)]
    return h.table(".bars")[
        h.caption[f"{title}, ms after the start, the slowest first"], h.thead[h.tr[heads]], h.tbody[rows]
    ]


def _after(ms: int | None, otherwise: str) -> Node:
    return h.td(".number")[otherwise if ms is None else f"{ms:,}"]


def _pieces(one: RebalanceView, track: Track, scale: float) -> list[tuple[str, float, float]]:
    """Kind, place and width of the parts of a member's bar."""
    came = track.came_ms or 0
    end = track.done_ms if track.done_ms is not None else one.duration_ms or came
    if one.is_target:
        return [("sync", came * scale, (end - came) * scale)]
    joined = (one.phases and one.phases.join_ms) or came
    assigned = joined + ((one.phases and one.phases.assign_ms) or 0)
    parts = (("silent", 0, came), ("join", came, joined), ("assign", joined, assigned), ("sync", assigned, end))
    return [(kind, begin * scale, (until - begin) * scale) for kind, begin, until in parts if until > begin]


def helps(advice: Sequence[Advice]) -> Node:
    """What would help the group; nothing where figures do not speak."""
    if not advice:
        return None
    texts = [h.p[h.strong[one.setting], f": {one.text}"] for one in advice]
    return h.div(".card")[h.h2["What would help"], h.div(".advice")[texts]]


def content(view: GroupView, one: RebalanceView, owners: Owners, told: Told) -> Node:
    """The page of one rebalance."""
    place = group_address(view.group_id)
    index = [other.key for other in view.rebalances].index(one.key)
    before = view.rebalances[index - 1] if index else None
    after = view.rebalances[index + 1] if index + 1 < len(view.rebalances) else None
    day = datetime.fromtimestamp(one.at / 1000, UTC).strftime("%Y-%m-%d")
    text = "\n".join(words.explanation(one, told.advice, UTC, "UTC"))
    return [
        h.div(".title")[
            h.h1[
                h.a(href=place)[name(view.group_id)], f", {'epoch' if one.is_target else 'generation'} {title_of(one)}"
            ],
        ],
        h.p(".quiet")[
            f"{day} {clock(one.at, with_ms=True)} UTC · ",
            h.a(href=_look(place, one))["on the timeline"],
            before is not None and [" · ", h.a(href=address(before), rel="prev")["previous"]],
            after is not None and [" · ", h.a(href=address(after), rel="next")["next"]],
        ],
        h.section(".card.why", aria_label="explanation")[_explanation(one), _waterfall(one, 50)],
        helps(told.advice),
        h.details[
            h.summary["as text"],
            h.p[h.button(type="button", data_copy="text")["copy as text"]],
            h.pre(id="text", tabindex="0")[text],
        ],
        h.section(".tables")[_moves(one, owners), _dark(one), refused_meanwhile(one, told.events)],
    ]


def _look(place: str, one: RebalanceView) -> str:
    began = one.started if one.started is not None else one.at
    margin = max((one.at - began) * 2, 5_000)
    return f"{place}?from={began - margin}&to={one.at + margin}"


def _moves(one: RebalanceView, owners: Owners) -> Node:
    heads = [head("partition"), head("from"), head("to")]
    known = {move.before for move in one.moved if move.before} | {move.owner for move in one.moved}
    names = {member_id: owners.of(member_id) for member_id in known}
    rows = [
        h.tr[
            h.td[f"{name(move.topic)} {move.partition}"],
            h.td[_owner(names[move.before].slot, move.before) if move.before else "nobody"],
            h.td[_owner(names[move.owner].slot, move.owner)],
        ]
        for move in one.moved[:_LISTED]
    ]
    rows += [h.tr[h.td[f"{name(topic)} {place}"], h.td["–"], h.td["nobody"]] for topic, place in one.revoked[:_LISTED]]
    return table(f"What moved: {len(one.moved):,}, and {one.kept:,} stayed", heads, rows)


def _owner(slot: int, member_id: str) -> Node:
    return [h.span(class_=f"swatch s{slot}", aria_hidden="true"), words.member(member_id)]


def _dark(one: RebalanceView) -> Node:
    if one.dark is None:
        return h.p(".quiet")["How long partitions had no owner is not known from this source."]
    found = sorted((dark for dark in one.dark if dark.dark_ms > 0), key=lambda dark: -dark.dark_ms)
    rows = [
        h.tr[h.td[f"{name(dark.topic)} {dark.partition}"], h.td(".number")[words.duration(dark.dark_ms)]]
        for dark in found[:_LISTED]
    ]
    return table("Without owner, the longest first", [head("partition"), head("for", is_number=True)], rows)


def find(found: Sequence[RebalanceView], key: str) -> RebalanceView | None:
    """By the key of the address."""
    return next((one for one in found if one.key == key), None)
