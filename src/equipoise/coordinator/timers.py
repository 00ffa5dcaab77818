"""Deadlines as values. Re-arming one that lies in the future costs a dictionary entry, as heartbeats do it."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count


class Timers:
    """Each key has at most one deadline. The heap may hold older ones; they are passed over when they come up."""

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}  # the earliest time at which the heap will bring a key up
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()  # keys armed for the same moment fire in the order they were queued

    def arm(self, key: Hashable, deadline: int) -> None:
        self._deadlines[key] = deadline
        queued = self._queued.get(key)
        if queued is None or queued > deadline:
            self._queue(key, deadline)

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    def clear(self) -> None:
        self._deadlines.clear()
        self._queued.clear()
        self._heap.clear()

    def deadline(self, key: Hashable) -> int | None:
        return self._deadlines.get(key)

    def next_deadline(self) -> int | None:
        """When to come back; never later than needed, sometimes earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> Hashable | None:
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

    def _queue(self, key: Hashable, deadline: int) -> None:
        self._queued[key] = deadline
        heappush(self._heap, (deadline, next(self._order), key))
