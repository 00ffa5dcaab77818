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
    "register_assignor",
    "registered_assignor",
    "registered_assignors",
]


def assignor_named(name: str) -> Assignor:
    """Returns a new assignor: each remembers the assignment of its own member."""
    if name not in ASSIGNORS:
        nearest = get_close_matches(name, ASSIGNORS, 1)
        meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(ASSIGNORS)}"
        raise UsageError(f"there is no assignor {name!r}: {meant} A custom one is given as an object")
    return ASSIGNORS[name]()


_REGISTERED: dict[str, Assignor] = {}  # by the coordinator's user, for `consumer` groups
_OF_THE_COORDINATOR = ("uniform", "range")  # Kafka's own, which nobody replaces


def register_assignor(assignor: Assignor) -> None:
    """Makes an assignor known to the coordinators of this process, for `group.consumer.assignors`. An assignor of the
    same name is replaced: all groups use the new one from their next target on."""
    if assignor.name in _OF_THE_COORDINATOR or not assignor.name or set(assignor.name) & set(", "):
        raise UsageError(f"an assignor cannot be registered as {assignor.name!r}: choose another name")
    _REGISTERED[assignor.name] = assignor


def registered_assignor(name: str) -> Assignor:
    """The assignor that was registered under a name."""
    if name not in _REGISTERED:
        raise UsageError(f"there is no assignor {name!r}: register_assignor() makes it known")
    return _REGISTERED[name]


def registered_assignors() -> tuple[str, ...]:
    """All names that `group.consumer.assignors` may have."""
    return *_OF_THE_COORDINATOR, *_REGISTERED
