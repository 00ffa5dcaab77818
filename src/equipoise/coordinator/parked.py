"""Parked requests: a JoinGroup waits for the end of the join phase, a SyncGroup for the assignment, a held Heartbeat
for the next rebalance.

A member has at most one of each kind. A client that sends again has lost the connection of the older request, and the
newer request counts. Every request leaves with a `Release`: the reason, and the error for the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from equipoise.coordinator.step import Caller, write_error
from equipoise.wire.errors import ErrorCode


class Why(Enum):
    """The reason for which a wait ends."""

    ANSWERED = auto()  # what the request waited for is there; of a held heartbeat: all is well
    SENT_AGAIN = auto()  # the client has sent the same request anew
    REBALANCE = auto()  # a rebalance has begun
    REMOVED = auto()  # the member is no longer one
    FENCED = auto()  # a new incarnation of the static member has come
    NOT_WRITTEN = auto()  # the record that the answer needs could not be written
    UNLOADED = auto()  # the shard goes elsewhere


class Release(NamedTuple):
    """The end of a wait."""

    why: Why
    error: ErrorCode

    @property
    def names_member(self) -> bool:
        """A refused JoinGroup gets its member id back, unless the id is of no more use."""
        return self.why not in (Why.REMOVED, Why.NOT_WRITTEN)


ANSWERED = Release(Why.ANSWERED, ErrorCode.NONE)
SENT_AGAIN = Release(Why.SENT_AGAIN, ErrorCode.REBALANCE_IN_PROGRESS)
REBALANCE = Release(Why.REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS)
REMOVED = Release(Why.REMOVED, ErrorCode.UNKNOWN_MEMBER_ID)
FENCED = Release(Why.FENCED, ErrorCode.FENCED_INSTANCE_ID)
UNLOADED = Release(Why.UNLOADED, ErrorCode.NOT_COORDINATOR)


def not_written(error: ErrorCode) -> Release:
    """The release after a failed write."""
    return Release(Why.NOT_WRITTEN, write_error(error))


@dataclass(slots=True)
class ParkedRequests:
    """The callers that a group keeps waiting, by member id."""

    joins: dict[str, Caller] = field(default_factory=dict)
    syncs: dict[str, Caller] = field(default_factory=dict)
    heartbeats: dict[str, Caller] = field(default_factory=dict)

    def awaits_phase(self, member_id: str) -> bool:
        """Whether the member waits for the group, and so cannot be heard of. A held heartbeat is a sign of life."""
        return member_id in self.joins or member_id in self.syncs
