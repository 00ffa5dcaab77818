"""The segments of a log, by their base offsets. Kafka: LogSegments.

Nothing here checks a range or turns an error of the disk into one of Kafka: the log does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter

from equipoise.log.producer_state import AbortedTxn
from equipoise.log.segment import LogSegment
from equipoise.wire.records.batch import BatchHeader, read_header

_BASE_OFFSET = attrgetter("base_offset")
_LAST_OFFSET = attrgetter("last_offset")


class LogSegments(list[LogSegment]):
    """In the order of their offsets. A log has one at least; the last is the active one."""

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self)

    @property
    def last_aborted(self) -> int:
        """The offset of the last ABORT marker that has ended a transaction; -1: there is none."""
        return max((segment.aborted[-1].last_offset for segment in self if segment.aborted), default=-1)

    def floor(self, offset: int) -> int:
        """The place of the segment that holds an offset, or would."""
        return max(bisect_right(self, offset, key=_BASE_OFFSET) - 1, 0)

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> list[memoryview]:
        """Whole batches of one segment, see `PartitionLog.read`. The second look takes batches that compaction has
        left without records."""
        found = self._read(offset, max_bytes, limit_offset, bare=False)
        if not found and offset < limit_offset:
            found = self._read(offset, max_bytes, limit_offset, bare=True)
        return found

    def _read(self, offset: int, max_bytes: int, limit_offset: int, *, bare: bool) -> list[memoryview]:
        for segment in self[self.floor(offset) :]:
            if segment.base_offset >= limit_offset:
                break
            views = segment.read(offset, max_bytes, limit_offset, bare=bare)
            if views:
                return views
        return []

    def available(self, offset: int, limit_offset: int) -> int | None:
        """Bytes between two offsets; None if segments were rolled since `offset`."""
        at = self.floor(offset)
        if at + 1 < len(self) and self[at + 1].base_offset < limit_offset:
            return None
        return self[at].position_of(limit_offset) - self[at].position_of(offset)

    def offset_behind(self, views: Sequence[memoryview]) -> int:
        """The offset behind what `read` returned, or of the next batch that compaction has left."""
        first = read_header(views[0]).base_offset
        segment = self[self.floor(first)]
        return segment.offset_at(segment.position_of(first) + sum(map(len, views)))

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records between two offsets, by the offset of their markers
        (UnifiedLog.collectAbortedTransactions). Rules T.49 and T.50."""
        found: list[AbortedTxn] = []
        for segment in self[self.floor(from_offset) :]:
            aborted = segment.aborted
            for entry in aborted[bisect_left(aborted, from_offset, key=_LAST_OFFSET) :]:
                if entry.first_offset < to_offset:
                    found.append(entry)
                if entry.last_stable_offset >= to_offset:
                    return found
        return found

    def find_batch_by_timestamp(self, timestamp: int, from_offset: int) -> tuple[memoryview, BatchHeader] | None:
        """The first batch from `from_offset` on whose header promises a record with a timestamp of `timestamp` or
        later."""
        found = (segment.find_batch_by_timestamp(timestamp, from_offset) for segment in self)
        return next(filter(None, found), None)

    def batch_of_max_timestamp(self) -> tuple[int, int]:
        """The latest timestamp, -1 if there is none, and the offset of the first batch whose header promises it."""
        latest = max(self, key=attrgetter("max_timestamp"))
        return latest.max_timestamp, latest.max_timestamp_offset

    def take_first(self, count: int) -> list[LogSegment]:
        """So many segments at the start, which are no longer here."""
        taken = self[:count]
        del self[:count]
        return taken

    def replace(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """One segment takes the place of its neighbours."""
        at = self.index(old[0])
        self[at : at + len(old)] = [new]
