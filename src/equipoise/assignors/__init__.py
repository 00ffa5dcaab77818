"""Assignors: the strategies by which a group's leader assigns partitions to members, by their names on the wire."""

from __future__ import annotations

from difflib import get_close_matches

from equipoise.assignors.assignor import (
    Assignments,
    Assignor,
    Cluster,
    GroupMember,
    Members,
    RebalanceProtocol,
    Topic,
    common_protocol,
)
from equipoise.assignors.cooperative_sticky import CooperativeStickyAssignor
from equipoise.assignors.range import RangeAssignor
from equipoise.assignors.roundrobin import RoundRobinAssignor
from equipoise.assignors.sticky import StickyAssignor
from equipoise.wire.errors import UsageError

_BUILT_IN: tuple[type[Assignor], ...] = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
ASSIGNORS = {assignor.name: assignor for assignor in _BUILT_IN}

__all__ = [
    "ASSIGNORS",
    "Assignments",
    "Assignor",
    "Cluster",
    "CooperativeStickyAssignor",
    "GroupMember",
    "Members",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Topic",
    "assignor_named",
    "common_protocol",
]


def assignor_named(name: str) -> Assignor:
    """Returns a new assignor: each remembers the assignment of its own member."""
    if name not in ASSIGNORS:
        nearest = get_close_matches(name, ASSIGNORS, 1)
        meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(ASSIGNORS)}"
        raise UsageError(f"there is no assignor {name!r}: {meant} A custom one is given as an object")
    return ASSIGNORS[name]()
