"""Events of a group, for the journal, the metrics and the tests. Events never change behaviour."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.reasons import Cause, Departure, Refusal, Who


@dataclass(frozen=True, slots=True)
class Event:
    """Any event: of which group, and when, in the time of `now`."""

    group_id: str
    at: int


@dataclass(frozen=True, slots=True)
class StateChanged(Event):
    """The group has changed its state."""

    origin: State
    target: State
    generation_id: int
    cause: Cause | None = None  # of a rebalance that begins


@dataclass(frozen=True, slots=True)
class MemberJoined(Event):
    """A new member was added."""

    who: Who


@dataclass(frozen=True, slots=True)
class MemberLeft(Event):
    """A member is gone, and why."""

    who: Who
    departure: Departure
    said: str | None = None
    _: KW_ONLY
    silent_ms: int = 0
    limit_ms: int = 0
    group_max_size: int = 0  # members


@dataclass(frozen=True, slots=True)
class MemberFenced(Event):
    """A request of a past incarnation of a static member was refused."""

    who: Who
    request: str


@dataclass(frozen=True, slots=True)
class CommitRefused(Event):
    """A commit was refused, and why."""

    who: Who
    refusal: Refusal
    _: KW_ONLY
    generation_id: int  # of the request
    group_generation_id: int


@dataclass(frozen=True, slots=True)
class GroupDeleted(Event):
    """The group is gone from the log: its last offset expired, or an administrator deleted it."""

    expired: bool


@dataclass(frozen=True, slots=True)
class MembersSynced(Event):
    """Members of a classic group that asked for their assignment only after the rebalance had ended.

    It comes when the last of them has asked, or when the next rebalance begins.
    """

    generation_id: int
    syncs: tuple[tuple[str, int], ...]  # member id, and ms from the start of the rebalance


@dataclass(frozen=True, slots=True)
class TargetReached(Event):
    """Every member of a `consumer` group has what the target gives it, or a newer target has overtaken it."""

    epoch: int
    overtaken: bool
