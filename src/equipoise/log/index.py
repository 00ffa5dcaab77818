"""A sparse index of one segment: the start of a batch, every few kilobytes.

Offsets, positions and "largest timestamp before here" rise together. One entry therefore serves all three searches: by
offset, by position and by time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

_KEPT_IN_A_SEAL = 1024
_RECENT = 64


class SparseIndex:
    """Entries (base offset, position, largest timestamp before it). The first entry is always at position 0."""

    __slots__ = ("offsets", "positions", "timestamps")

    def __init__(self, entries: Iterable[Sequence[int]]) -> None:
        self.offsets, self.positions, self.timestamps = array("q"), array("q"), array("q")
        for entry in entries:
            self.insert(len(self.offsets), *entry)

    def insert(self, at: int, offset: int, position: int, timestamp_before: int) -> None:
        """A new entry, before the entry that is now number `at`."""
        self.offsets.insert(at, offset)
        self.positions.insert(at, position)
        self.timestamps.insert(at, timestamp_before)

    def by_offset(self, offset: int) -> int:
        """The last entry whose batch begins at or before `offset`."""
        return max(bisect_right(self.offsets, offset) - 1, 0)

    def by_position(self, position: int) -> int:
        """The last entry at or before `position`."""
        return bisect_right(self.positions, position) - 1

    def by_timestamp(self, timestamp: int) -> int:
        """The last entry with no timestamp of `timestamp` or later before it."""
        return max(bisect_left(self.timestamps, timestamp) - 1, 0)

    def thinned(self) -> list[list[int]]:
        """About a thousand entries at most, evenly taken: enough to find the rest again from headers."""
        step = -(-len(self.offsets) // _KEPT_IN_A_SEAL)
        columns = (self.offsets, self.positions, self.timestamps)
        return [list(entry) for entry in zip(*(column[::step] for column in columns), strict=True)]


class RecentBatches:
    """The start of each of the last batches. It answers readers at the end of a log without reading bytes."""

    __slots__ = ("_last_offsets", "_positions")

    def __init__(self) -> None:
        self._last_offsets, self._positions = array("q"), array("q")

    def add(self, last_offset: int, position: int) -> None:
        """A batch that was just appended."""
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        if len(self._positions) >= 2 * _RECENT:
            del self._last_offsets[:_RECENT], self._positions[:_RECENT]

    def position_of(self, offset: int) -> int | None:
        """The position of the first batch that ends at or after `offset`; None if an older batch may be it."""
        offsets = self._last_offsets
        if not offsets or not offsets[0] < offset <= offsets[-1]:
            return None
        return self._positions[bisect_left(offsets, offset)]
