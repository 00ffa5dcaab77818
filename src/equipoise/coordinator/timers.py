"""Deadlines as values. Moving a deadline further into the future, as every heartbeat does, costs one dictionary
entry."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

_SPARE = 1024  # cancelled keys that the heap may hold in any case


class TimerKind(IntEnum):
    """An IntEnum for its hash, which every heartbeat takes."""

    SESSION = auto()  # of a member, or of a member id that was given out
    HOLD = auto()  # of a member's held heartbeat
    JOIN = auto()  # of a group: the initial delay, or the rebalance timeout of the join phase; of a classic member in
    # a `consumer` group: its rebalance timeout since it was told to rejoin
    DEBOUNCE = auto()  # of a group
    SYNC = auto()  # of a group, or of a classic member in a `consumer` group: until SyncGroup must have come
    REBALANCE = auto()  # of a member of a `consumer` group that has partitions to give up
    TARGET = auto()  # of a `consumer` group: when its next target may be computed
    QUIET = auto()  # of a group: no new member has come for so long
    LOST = auto()  # of a member without a connection: it has not come back on another one
    PARKED = auto()  # of a member of an incremental group: its parked SyncGroup is answered with what is free
    CALL = auto()  # of an incremental group: who has waited for a part of its partitions is called for the others
    WAKE = auto()  # of a `consumer` group: more of those whose held heartbeats are to be looked at
    EXPIRY = auto()  # of the shard: the next sweep of expired offsets


class TimerKey(NamedTuple):
    """What a timer is for: the shard, a group, or a member."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Timers(Generic[K]):
    """Each key has at most one deadline. The heap may hold older ones; they are passed over when they come up."""

    _deadlines: dict[K, int] = field(default_factory=dict)
    _queued: dict[K, int] = field(default_factory=dict)  # the earliest time at which the heap will bring a key up
    _heap: list[tuple[int, int, K]] = field(default_factory=list)
    _order: int = 0  # keys armed for the same moment fire in the order they were queued

    def arm(self, key: K, deadline: int) -> None:
        """Sets the deadline of a key, earlier or later than it was."""
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or queued > deadline:
            self._queue(key, deadline)

    def arm_all(self, keys: Sequence[K], deadline: int) -> None:
        """`arm` for many keys at once, in a fraction of the time."""
        self._deadlines.update(dict.fromkeys(keys, deadline))
        queued = self._queued.get
        for key in keys:
            at = queued(key)
            if at is None or at > deadline:
                self._queue(key, deadline)

    def cancel(self, key: K) -> None:
        """Takes the deadline of a key away; the heap forgets it when it comes up, or when most of it is such keys."""
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        """Takes all deadlines away."""
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()

    def deadline(self, key: K) -> int | None:
        """When a key fires; None: it is not armed."""
        return self._deadlines.get(key)

    def next_deadline(self) -> int | None:
        """When to come back; never later than needed, sometimes earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> K | None:
        """A key whose deadline has come; it is armed no longer. None when there are no more."""
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._queued.get(key) != at:
                continue  # queued again, for an earlier time
            del self._queued[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline > now:
                self._queue(key, deadline)
                continue
            del self._deadlines[key]
            return key
        return None

    def _queue(self, key: K, deadline: int) -> None:
        self._queued[key] = deadline
        self._order += 1
        heappush(self._heap, (deadline, self._order, key))
        if len(self._heap) > 4 * len(self._deadlines) + _SPARE:
            self._forget_cancelled()

    def _forget_cancelled(self) -> None:
        """Members that come and go leave a key each, which would wait here until its session would have ended."""
        queued, deadlines = self._queued, self._deadlines
        self._heap = [entry for entry in self._heap if queued.get(entry[2]) == entry[0] and entry[2] in deadlines]
        heapify(self._heap)
        self._queued = {key: at for at, _, key in self._heap}
