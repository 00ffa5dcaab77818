"""Causes, departures and refusals as values. `console/words.py` alone turns them into words."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Trigger(Enum):
    """Why a rebalance began."""

    MEMBER_JOINED = auto()
    MEMBER_LEFT = auto()
    MEMBER_REMOVED = auto()  # by an administrator, by its group.instance.id
    SESSION_EXPIRED = auto()
    CONNECTION_LOST = auto()  # and the member did not come back on another one
    SUBSCRIPTION_CHANGED = auto()
    LEADER_REJOINED = auto()
    STATIC_MEMBER_REPLACED = auto()
    SYNC_EXPIRED = auto()  # members that never asked for their assignment
    ASSIGNMENT_NOT_WRITTEN = auto()
    SIZE_LIMIT = auto()  # more members were loaded than group.max.size allows
    REBALANCE_FORCED = auto()  # by a test, see `interventions.py`
    # -- of `consumer` groups only
    REVOCATION_EXPIRED = auto()  # a member did not give up partitions within its rebalance timeout
    TOPICS_CHANGED = auto()  # a topic was created or deleted, or has other partitions
    ASSIGNOR_CHANGED = auto()  # members prefer another assignor
    REGEX_RESOLVED = auto()  # a regular expression matches other topics than before


class Departure(Enum):
    """Why a member is no longer one."""

    LEFT = auto()
    REMOVED = auto()
    SESSION_EXPIRED = auto()
    CONNECTION_LOST = auto()
    FIRST_JOIN_EXPIRED = auto()  # a new member whose join could not be answered in time
    JOIN_EXPIRED = auto()  # did not rejoin within the rebalance timeout
    SYNC_EXPIRED = auto()
    REVOCATION_EXPIRED = auto()  # did not give up partitions within its rebalance timeout, in a `consumer` group
    REPLACED = auto()  # a static member came back under a new id
    GROUP_FULL = auto()


# What only `consumer` groups know.
CONSUMER_GROUP_TRIGGERS = frozenset(
    {Trigger.REVOCATION_EXPIRED, Trigger.TOPICS_CHANGED, Trigger.ASSIGNOR_CHANGED, Trigger.REGEX_RESOLVED}
)
CONSUMER_GROUP_DEPARTURES = frozenset({Departure.REVOCATION_EXPIRED})


class Refusal(Enum):
    """Why a commit was refused."""

    UNKNOWN_GROUP = auto()
    UNKNOWN_MEMBER = auto()
    FENCED_INSTANCE = auto()
    OLD_GENERATION = auto()
    REBALANCE_IN_PROGRESS = auto()
    STANDALONE_IN_LIVE_GROUP = auto()  # a commit without membership while the group has members
    OLD_VERSION = auto()  # a member of a `consumer` group in a version that knows no member epochs


CONSUMER_GROUP_REFUSALS = frozenset({Refusal.OLD_VERSION})


class Who(NamedTuple):
    """A member as it is named to people."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    group_instance_id: str | None = None


NOBODY = Who("")


class Cause(NamedTuple):
    """A trigger with its circumstances. `silent_ms` and `limit_ms` belong to the expiries: how long, and of how much.

    `said` is the client's own reason, where it sent one. `group_max_size` belongs to the limit of that name.
    """

    trigger: Trigger
    who: Who = NOBODY
    said: str | None = None
    silent_ms: int = 0
    limit_ms: int = 0
    group_max_size: int = 0  # members
