"""Finds the first record with a given timestamp or later. The loop finds batches by headers, any thread decodes them
(UnifiedLog.fetchOffsetByTimestamp).

A producer writes the header: the records may differ from it, or expand without end. The work is therefore bounded. At
the bound the answer is the first offset of the batch that should hold the record: a reader that begins there misses
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.codecs import ExpandsTooFarError
from equipoise.wire.records.scan import record_limit, scan, unpack

if TYPE_CHECKING:
    from equipoise.log.partition import PartitionLog

_BUDGET = 1 << 30
_RECORD_COST = 64  # bytes that expand in the time in which one record is looked at
_BATCH_LIMIT = 32 << 20  # bytes that one batch may expand to
_MOST_IN_VAIN = 16  # batches of one look-up that did not hold what their headers said
_PAUSE_RECORDS = 1024
_MAX_TIMESTAMP = 2**63 - 1


class LookupBudget:
    """The work of all look-ups of one request: some 16 million records, or a gigabyte expanded."""

    def __init__(self) -> None:
        self.left = _BUDGET


class TimestampLookup:
    """Finds the first record with a timestamp of `timestamp` or later; None: the record with the latest timestamp.

    While `advance`, on the loop's thread, returns True, call `search` on any thread. Then `found` is (timestamp,
    offset), or None.
    """

    def __init__(self, log: PartitionLog, timestamp: int | None, budget: LookupBudget | None = None) -> None:
        self.found: tuple[int, int] | None = None
        self._log = log
        self._budget = budget or LookupBudget()
        self._from = log.log_start_offset
        if timestamp is None:
            timestamp, offset = log.batch_of_max_timestamp()
            self._from = max(self._from, offset)
        self._timestamp = timestamp
        self._in_vain = 0
        self._batch: tuple[memoryview, BatchHeader] | None = None

    def advance(self) -> bool:
        """Finds the next batch to search. The log may have changed since the last call: nothing is remembered."""
        if self.found is None and self._timestamp >= 0:
            self._batch = self._log.find_batch_by_timestamp(self._timestamp, self._from)
        if self.found is not None or self._batch is None:
            return False
        if self._in_vain < _MOST_IN_VAIN and self._budget.left > 0:
            return True
        self.found = self._roughly(self._batch[1])
        return False

    def search(self, pause: Callable[[], object] = lambda: None) -> None:
        """Searches the batch. Its bytes no longer change, whatever happens to their segment."""
        assert self._batch is not None
        (view, header), self._batch = self._batch, None
        try:
            self.found = self._first(view, header, pause)
        except ExpandsTooFarError:
            self.found = self._roughly(header)
        self._from = header.last_offset + 1
        self._in_vain += 1

    def _first(self, view: memoryview, header: BatchHeader, pause: Callable[[], object]) -> tuple[int, int] | None:
        data = unpack(view, header, limit=_BATCH_LIMIT)
        number, found, most = 0, None, record_limit(header.size)
        for number, record in enumerate(scan(data, header), 1):
            if record.timestamp >= self._timestamp and record.offset >= self._from:
                found = min(record.timestamp, _MAX_TIMESTAMP), record.offset
                break
            if number == most:
                found = self._roughly(header)
                break
            if number % _PAUSE_RECORDS == 0:
                pause()
        self._budget.left -= len(data) + number * _RECORD_COST
        return found

    def _roughly(self, header: BatchHeader) -> tuple[int, int]:
        return header.max_timestamp, max(header.base_offset, self._from)

    def run(self) -> tuple[int, int] | None:
        """Does all of it at once."""
        while self.advance():
            self.search()
        return self.found
