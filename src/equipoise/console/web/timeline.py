"""The timeline of a group as JSON for the browser, and what changed between two of them.

Times within a lane are differences, which are short. Owners are numbers, in the order of `Owners`. Words are made here:
the browser only draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from equipoise.console import words
from equipoise.console.web.lanes import EMPTY, NO_OWNER, UNKNOWN, Lane, TopicPartition, lanes
from equipoise.console.web.owners import Owners
from equipoise.coordinator.reasons import Who
from equipoise.views.model import GroupView, HealthKind, RebalanceView
from equipoise.views.rebalances import POLL_OVERRUN, reason
from equipoise.wire.text import LONGEST_NAME, printable

KEPT = 500  # rebalances
JOINED, LEFT, LATE, EXPIRED, OTHER = "joined", "left", "late", "expired", "other"
KINDS = {  # of rebalances: a colour and a letter for each
    JOINED: ("J", "joined"),
    LEFT: ("L", "left"),
    LATE: ("P", "polled too late"),
    EXPIRED: ("S", "fell silent"),
    OTHER: ("R", "rejoined, or topics changed"),
}
_KIND_OF = {
    "member_joined": JOINED,
    "static_member_replaced": JOINED,
    "member_restarted": JOINED,
    "members_changed": JOINED,
    "member_left": LEFT,
    "member_removed": LEFT,
    "member_gone": LEFT,
    "never_settled": EXPIRED,
    POLL_OVERRUN: LATE,
    "session_expired": EXPIRED,
    "connection_lost": EXPIRED,
    "sync_expired": EXPIRED,
    "revocation_expired": EXPIRED,
}
_CODES = {NO_OWNER: -1, EMPTY: -2, UNKNOWN: -3}
Json = dict[str, Any]
Numbered = list[tuple[int, int]]  # a lane, with owners by number


class LagSample(NamedTuple):
    """The lag of a group at a time; None: unknown."""

    at: int
    records: int | None


class Timeline(NamedTuple):
    """All that one picture shows. `rows` are its lanes, by partition."""

    group_id: str
    began: int
    to: int
    state: str
    running: str | None
    owners: list[Json]
    rows: dict[TopicPartition, Numbered]
    rebalances: list[Json]
    episodes: list[Json]
    marks: list[Json]
    lag: Sequence[LagSample]
    lag_of: list[int | None]


def kind_of(view: RebalanceView) -> str:
    """The kind by which a rebalance is coloured."""
    return _KIND_OF.get(reason(view), OTHER)


def timeline(view: GroupView, owners: Owners, lag: Sequence[LagSample], window_ms: int) -> Timeline:
    """The picture of a view. `owners` grows by the members that are new."""
    owners.learn(view)
    rows = {place: _numbered(lane, owners) for place, lane in lanes(view).items()}
    since = view.as_of - window_ms
    shown = [one for one in view.rebalances if one.at >= since][-KEPT:]
    known = view.as_of if view.seen_since is None else view.seen_since
    began = max(min((lane[0][0] for lane in rows.values() if lane), default=known), since)
    if len(shown) == KEPT:
        began = max(began, shown[0].at)
    lags = {(one.topic, one.partition): one.lag for one in view.partitions}
    return Timeline(
        group_id=view.group_id,
        began=began,
        to=view.as_of,
        state=view.state or "unknown",
        running=running(view),
        owners=_owners(owners, view),
        rows={place: _since(lane, began) for place, lane in rows.items()},
        rebalances=[brief(one) for one in shown],
        episodes=[
            {"from": one.began, "to": one.ended, "text": words.episode(one)}
            for one in view.episodes
            if one.ended >= began
        ],
        marks=_marks(view, shown, began),
        lag=[one for one in lag if one.at >= began],
        lag_of=[lags.get(place) for place in rows],
    )


def snapshot(found: Timeline, seq: int) -> Json:
    """The whole picture."""
    return {
        "seq": seq,
        "group": printable(found.group_id, LONGEST_NAME),
        "from": found.began,
        "to": found.to,
        "state": found.state,
        "running": found.running,
        "owners": found.owners,
        "lanes": [
            {
                "topic": printable(topic, LONGEST_NAME),
                "partition": number,
                "at": _differences([at for at, _ in lane]),
                "owner": [owner for _, owner in lane],
            }
            for (topic, number), lane in found.rows.items()
        ],
        "rebalances": found.rebalances,
        "episodes": found.episodes,
        "marks": found.marks,
        "lag": {"at": _differences([one.at for one in found.lag]), "records": [one.records for one in found.lag]},
        "lag_of": found.lag_of,
    }


def difference(old: Timeline, new: Timeline) -> list[tuple[str, Json]] | None:
    """Events that make the new picture of the old one; None if only a new snapshot can."""
    if list(old.rows) != list(new.rows):
        return None
    events: list[tuple[str, Json]] = []
    changes = [change for index, change in _changes(old, new)]
    known = {one["key"]: one for one in old.rebalances}
    fresh = [one for one in new.rebalances if known.get(one["key"]) != one]
    if changes or fresh or old.episodes != new.episodes or old.marks != new.marks:
        events.append(("rebalance", _rebalance_event(old, new, changes, fresh)))
    elif old.owners != new.owners:
        events.append(("members", {"owners": new.owners, "to": new.to}))
    if (old.state, old.running) != (new.state, new.running):
        events.append(("state", {"state": new.state, "running": new.running, "to": new.to}))
    if new.lag and (not old.lag or old.lag[-1] != new.lag[-1]):
        last = new.lag[-1]
        events.append(("lag", {"at": last.at, "records": last.records, "lanes": new.lag_of, "to": new.to}))
    return events


def _rebalance_event(old: Timeline, new: Timeline, changes: list[list[int]], fresh: list[Json]) -> Json:
    return {
        "from": new.began,
        "to": new.to,
        "lanes": len(new.rows),
        "owners": new.owners if old.owners != new.owners else None,
        "changes": changes,
        "rebalances": fresh,
        "episodes": new.episodes,
        "marks": new.marks,
    }


def _changes(old: Timeline, new: Timeline) -> Iterable[tuple[int, list[int]]]:
    """From where a lane differs, its spans. What only fell out of the window is no change."""
    for index, (before, after) in enumerate(zip(old.rows.values(), new.rows.values(), strict=True)):
        if before == after:
            continue
        known = _since(before, new.began)
        same = 0
        while same < min(len(known), len(after)) and known[same] == after[same]:
            same += 1
        for at, owner in after[same:]:
            yield index, [index, at, owner]


# -- parts


def _numbered(lane: Lane, owners: Owners) -> Numbered:
    found: Numbered = []
    for at, owner in lane:
        number = _CODES[owner] if owner in _CODES else owners.index(owner)
        if not found or found[-1][1] != number:
            found.append((at, number))
    return found


def _since(lane: Numbered, began: int) -> Numbered:
    """The part of a lane from a time on."""
    first = 0
    while first + 1 < len(lane) and lane[first + 1][0] <= began:
        first += 1
    return [(max(at, began), owner) for at, owner in lane[first:]]


def _differences(times: list[int]) -> list[int]:
    return times[:1] + [after - before for before, after in pairwise(times)]


def _owners(owners: Owners, view: GroupView) -> list[Json]:
    troubled = _trouble(view)
    return [
        {
            "id": printable(one.identity, LONGEST_NAME),
            "name": one.name,
            "host": one.host,
            "slot": one.slot,
            "trouble": troubled is not None and troubled in (one.identity, one.name),
        }
        for one in owners.all
    ]


def _trouble(view: GroupView) -> str | None:
    """The name of the member that most rebalances are about."""
    who: Who | None = view.health.culprit if view.health.kind is HealthKind.RESTLESS else None
    return None if who is None else who.group_instance_id or who.client_id or who.member_id


def running(view: GroupView) -> str | None:
    """What a rebalance that is under way waits for."""
    if view.state not in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        return None
    last = view.rebalances[-1] if view.rebalances else None
    if last is not None and last.ended is None and last.waited_for is not None:
        return f"a rebalance is running, it waits for {words.name(last.waited_for)}"
    return "a rebalance is running"


def brief(view: RebalanceView) -> Json:
    """One rebalance for the strip, with its sentence."""
    stopped = [one for one in view.dark or () if one.dark_ms > 0]
    phases = view.phases
    return {
        "key": view.key,
        "at": view.at,
        "started": view.started,
        "kind": kind_of(view),
        "stopped": len(stopped) if view.dark is not None else len(view.moved) + len(view.revoked),
        "moved": len(view.moved),
        "phases": None
        if phases is None or view.started is None
        else {name: getattr(phases, f"{name}_ms") or 0 for name in ("detect", "join", "assign", "sync")},
        "text": sentence(view),
        "url": address(view),
    }


def sentence(view: RebalanceView) -> str:
    """What the hover shows and a screen reader says."""
    at = clock(view.at)
    number = "epoch" if view.is_target else "generation"
    moved = f"{len(view.moved)} of {len(view.moved) + view.kept + len(view.revoked)} partitions moved"
    return f"{at}, {number} {'-' if view.generation is None else view.generation}: {words.why(view.cause)}; {moved}"


def address(view: RebalanceView) -> str:
    """The page of one rebalance."""
    return f"{group_address(view.group_id)}/rebalances/{quote(view.key, safe='')}"


def group_address(group_id: str) -> str:
    """The page of a group, whatever its name holds."""
    return f"/groups/{quote(group_id, safe='', errors='replace')}"


def clock(at: int, *, with_ms: bool = False) -> str:
    """A time of the day, in UTC."""
    text = datetime.fromtimestamp(at / 1000, UTC).strftime("%H:%M:%S.%f")
    return text[:-3] if with_ms else text[:8]


def _marks(view: GroupView, shown: Sequence[RebalanceView], began: int) -> list[Json]:
    """Turning points: another protocol, other topics, more partitions, and where history begins."""
    marks: list[Json] = []
    if view.seen_since is not None and view.seen_since >= began and shown and (shown[0].old_generation or 0) > 0:
        marks.append({"at": began, "text": "history begins here"})
    protocol = None
    for one in shown:
        if one.protocol and protocol and one.protocol != protocol:
            marks.append({"at": one.at, "text": f"{printable(protocol, 40)} → {printable(one.protocol, 40)}"})
        protocol = one.protocol or protocol
        if reason(one) == "topics_changed":
            marks.append({"at": one.at, "text": "topics changed"})
    return sorted(marks + _grown(shown), key=lambda mark: int(mark["at"]))


def _grown(shown: Sequence[RebalanceView]) -> list[Json]:
    """Where a group has more partitions than before: partitions were added, or members ask for more topics."""
    whole = [one for one in shown if one.members and not one.overtaken and not one.cut]
    counts = [len(one.moved) + one.kept + len(one.revoked) for one in whole]
    return [
        {"at": one.at, "text": f"{before} → {now} partitions"}
        for one, (before, now) in zip(whole[1:], pairwise(counts), strict=True)
        if 0 < before < now
    ]
