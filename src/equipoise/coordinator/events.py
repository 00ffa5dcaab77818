"""What happened in a group, for the journal, the metrics and the tests. Events never change what happens."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.reasons import Cause, Departure, Refusal, Who


@dataclass(frozen=True, slots=True)
class Event:
    group_id: str
    at: int


@dataclass(frozen=True, slots=True)
class StateChanged(Event):
    origin: State
    target: State
    generation_id: int
    cause: Cause | None = None  # of a rebalance that begins


@dataclass(frozen=True, slots=True)
class MemberJoined(Event):
    who: Who


@dataclass(frozen=True, slots=True)
class MemberLeft(Event):
    who: Who
    departure: Departure
    said: str | None = None
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
    who: Who
    refusal: Refusal
    generation_id: int
    group_generation_id: int


@dataclass(frozen=True, slots=True)
class GroupDeleted(Event):
    expired: bool
