"""The owner of each partition over time: a lane for each, from the rebalances of a view.

Darkness is known only afterwards: a rebalance says how long each partition had stood still when it ended. A lane is
then cut back to where the darkness began.
"""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.views.model import GroupView, Ms, RebalanceView

NO_OWNER, EMPTY, UNKNOWN = "(no owner)", "(empty)", "(unknown)"  # no member id is like these: they have spaces
TopicPartition = tuple[str, int]
Lane = list[tuple[int, str]]  # times that rise, each with the owner from then on


def lanes(view: GroupView) -> dict[TopicPartition, Lane]:
    """Every partition that the group has, or had in the view's time."""
    began = _began(view)
    owner_of = {place: one.member_id for one in view.members for place in one.partitions}
    found = _first_owners(view, owner_of, began)
    for one in view.rebalances:
        if one.ended is not None and not one.overtaken:
            _apply(found, one)
    places = {(one.topic, one.partition) for one in view.partitions if one.is_subscribed}
    for place in (owner_of.keys() | places) - found.keys():
        found[place] = [(began, owner_of.get(place, _nobody(view)))]
    return dict(sorted(found.items()))


def _nobody(view: GroupView) -> str:
    return NO_OWNER if view.members else EMPTY


def _began(view: GroupView) -> int:
    """How far back the picture goes."""
    known = [one.started or one.at for one in view.rebalances[:1]]
    if view.seen_since is not None:
        known.append(view.seen_since)
    return min(known, default=view.as_of)


def _first_owners(view: GroupView, owner_of: dict[TopicPartition, str], began: int) -> dict[TopicPartition, Lane]:
    """Who had a partition before its first move. One that never moved has had its owner all the time."""
    found: dict[TopicPartition, Lane] = {}
    for one in view.rebalances:
        for move in one.moved:
            place = move.topic, move.partition
            if place not in found:
                found[place] = [] if move.before is None else [(began, move.before)]
        for place in one.revoked:
            found.setdefault(place, [(began, UNKNOWN)])
    settled = [one for one in view.rebalances if not one.overtaken]
    for place, owner in owner_of.items():
        if settled and place not in found:
            found[place] = [(began, owner)]
    return found


def _apply(found: dict[TopicPartition, Lane], one: RebalanceView) -> None:
    at = one.at
    if not one.members:
        for lane in found.values():
            _set(lane, at, EMPTY)
        return
    after = {(move.topic, move.partition): move.owner for move in one.moved}
    for dark in one.dark or ():
        place = dark.topic, dark.partition
        lane = found.setdefault(place, [])
        owner = after.pop(place, None) or (lane[-1][1] if lane else UNKNOWN)
        _darken(lane, at - dark.dark_ms, one.started)
        _set(lane, at, owner)
    for place, owner in after.items():
        _set(found.setdefault(place, []), at, owner)
    for place in one.revoked:
        _set(found.setdefault(place, []), at, NO_OWNER)


def _darken(lane: Lane, since: int, started: Ms | None) -> None:
    """A group that was empty is not blamed for it: its lanes are dark from when a member asked for them."""
    if lane and lane[-1][1] == EMPTY:
        since = max(since, started if started is not None else since, lane[-1][0])
    _set(lane, since, NO_OWNER)


def _set(lane: Lane, at: int, owner: str) -> None:
    while lane and lane[-1][0] >= at:
        lane.pop()
    if not lane or lane[-1][1] != owner:
        lane.append((at, owner))


def dark_ms(rows: Iterable[Lane], until: int) -> int:
    """Partition time without owner."""
    total = 0
    for lane in rows:
        for (at, owner), (end, _) in zip(lane, [*lane[1:], (until, "")], strict=True):
            if owner == NO_OWNER:
                total += end - at
    return total
