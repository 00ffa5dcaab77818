"""The waterfall of a rebalance: for each member when it came, and when it had its assignment."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.views.model import RebalanceView


class Track(NamedTuple):
    """The way of one member, in ms after the start of the rebalance."""

    member_id: str
    came_ms: int | None  # it rejoined; in a target epoch: it was told to change. None: it is new, or away
    done_ms: int | None  # it has its assignment. None: not yet, or not known
    is_waited_for: bool = False  # it had not asked for its assignment when it was there, and has not since


def tracks(view: RebalanceView) -> list[Track]:
    """The slowest first. A source that does not tell of members has none."""
    found = _of_target(view) if view.is_target else _of_classic(view)
    return sorted(found, key=lambda one: (not one.is_waited_for, -(one.done_ms or 0), -(one.came_ms or 0)))


def _of_target(view: RebalanceView) -> list[Track]:
    done = dict(view.done)
    return [Track(member_id, after, done.get(member_id)) for member_id, after in view.called]


def _of_classic(view: RebalanceView) -> list[Track]:
    """Who asks before the assignment is there gets it at the end; who asks later gets it then."""
    came, late, unsynced = dict(view.arrivals), dict(view.synced), view.unsynced or ()
    with_end = view.duration_ms if view.unsynced is not None and not view.overtaken else None
    ends = dict.fromkeys(came, with_end) | {one: late.get(one) for one in unsynced}
    return [Track(one, came.get(one), end, one in unsynced and end is None) for one, end in ends.items()]
