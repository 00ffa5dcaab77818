"""Compaction keeps the newest record of each key (Cleaner.cleanSegments in Kafka). Offsets never change.

It reads only rolled segments, whose bytes never change, so the work can run on any thread. It reads through views taken
beforehand, and writes new segments beside the old. The log puts these in place.

The records of aborted transactions go too, and markers when they end nothing any more (`cleaned_transactions`). A
marker waits for delete.retention.ms from the pass that found so, whose time it then carries.

A tombstone is kept for delete.retention.ms from the first compaction that passed it, not from its own timestamp: only
from then on may a reader see the tombstone without the earlier values. The log's checkpoint remembers the end offset
and the time of each compaction.
"""

from __future__ import annotations

import errno
import hashlib
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from equipoise.log.cleaned_transactions import CleanedTransactions
from equipoise.log.config import LogConfig
from equipoise.log.producer_state import AbortedTxn, LastRecords
from equipoise.log.segment import LogSegment, end_mark
from equipoise.log.storage.faults import is_refusal
from equipoise.log.storage.medium import Files, Replacement, Storage
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import (
    DELETE_HORIZON,
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    read_header,
)
from equipoise.wire.records.build import frame_batch, frame_record
from equipoise.wire.records.codecs import compress
from equipoise.wire.records.control import read_marker
from equipoise.wire.records.read import read_records
from equipoise.wire.records.scan import Scanned, scan, unpack

_log = logging.getLogger(__name__)
_MAX_KEYS = 1_000_000  # about 200 MB; what does not fit is left for the next compaction, as in Kafka
_LONG_KEY = 32
_WRITE_BYTES = 1 << 20
_PAUSE_BYTES = 1 << 16
_PAUSE_RECORDS = 1024
_CODEC_BITS = 0x07

Cleaned = tuple[tuple[int, int], ...]


class _Kept(NamedTuple):
    """The bytes of a batch that stay. They are unchanged, because no delta in them changes."""

    records: bytearray
    number: int
    max_timestamp: int


class LogToClean(NamedTuple):
    """The segments of one pass, the earlier passes, what must stay of each producer, and the aborted transactions."""

    segments: Sequence[LogSegment]
    cleaned: Cleaned
    last_records: LastRecords
    aborted: Sequence[AbortedTxn]


def cleanable(segments: Sequence[LogSegment], config: LogConfig, cleaned: Cleaned, now: int) -> list[LogSegment]:
    """The segments at the log's start that a compaction should clean now; none if it is not worth it
    (LogCleanerManager.grabFilthiestCompactedLog)."""
    clean_until = cleaned[-1][0] if cleaned else 0
    lag = config.min_compaction_lag_ms
    ready = list(segments)
    if lag > 0:  # else a producer's clock that is ahead would count
        ready = [*takewhile(lambda s: s.end_offset <= clean_until or s.largest_timestamp <= now - lag, segments)]
    dirty = [segment for segment in ready if segment.end_offset > clean_until]
    if not config.compacts or not dirty:
        return []
    ratio = sum(segment.size for segment in dirty) / sum(segment.size for segment in ready)
    overdue = now - min(segment.first_timestamp for segment in dirty) > config.max_compaction_lag_ms
    return ready if overdue or ratio > config.min_cleanable_dirty_ratio else []


class Compaction:
    """One pass over `segments`. After `run`, `replacements` are ready to be put in place and `cleaned` to be saved."""

    def __init__(self, log: LogToClean, config: LogConfig, files: Files, now: int) -> None:
        segments, cleaned, last_records, aborted = log
        self.replacements: list[Replacement] = []
        self.cleaned = cleaned
        self._segments = segments
        self._views = {segment: segment.storage.views(0, segment.size) for segment in segments}
        self._config = config
        self._files = files
        self._last_records = last_records
        self._aborted = aborted
        self._transactions = CleanedTransactions(aborted)
        self._now = now
        expired = sum(time + config.delete_retention_ms <= now for _, time in cleaned)
        self._unexpired = cleaned[expired:]
        self._tombstones_end = cleaned[expired - 1][0] if expired else 0
        self._since_pause = 0
        self._unfinished: Storage | None = None
        self._offset_map: dict[bytes, int] = {}
        self._survivors: list[int] = []  # the offsets in it
        self._unreadable: set[int] = set()
        self._dirty_from = cleaned[-1][0] if cleaned else 0
        self._end = 0  # the first offset of which `_offset_map` knows nothing

    def run(self, pause: Callable[[], object] = lambda: None) -> None:
        """Does the work. It calls `pause` every millisecond or two, so that another thread can run."""
        self._pause = pause
        try:
            self._build_offset_map()
            self._survivors = sorted(self._offset_map.values())
            self._rewrite()
        except OSError as error:
            if is_refusal(error):
                self._files.faults.report(error, f"{self._files.path}: compaction stopped, it is tried again later")
            else:
                _log.warning("compaction stopped, it is tried again later: %s", error)
            if self._unfinished is not None:
                self._unfinished.delete()
        else:
            self.cleaned = (*self._unexpired, (self._end, self._now))

    def _batches(self, segment: LogSegment) -> Iterator[tuple[memoryview, BatchHeader]]:
        for view in self._views[segment]:
            position, end = 0, len(view)
            while position < end:
                header = read_header(view, position)
                size = header.size
                if size < HEADER_SIZE:
                    raise OSError(errno.EIO, f"no batch where one was written, at byte {position}: the data is damaged")
                yield view[position : position + size], header
                position += size
                self._since_pause += size
                if self._since_pause >= _PAUSE_BYTES:
                    self._since_pause = 0
                    self._pause()

    def _scan(self, data: bytes | memoryview, header: BatchHeader) -> Iterator[Scanned]:
        for number, record in enumerate(scan(data, header), 1):
            if number % _PAUSE_RECORDS == 0:
                self._pause()
            yield record

    def _build_offset_map(self) -> None:
        """Learns the newest offset of each key in the dirty part (Cleaner.buildOffsetMap)."""
        self._end = self._segments[-1].end_offset
        transactions = CleanedTransactions(txn for txn in self._aborted if txn.last_offset >= self._dirty_from)
        for segment in self._segments:
            for batch, header in self._batches(segment) if segment.end_offset > self._dirty_from else ():
                if header.last_offset < self._dirty_from:
                    continue
                if header.is_control:
                    transactions.ends_aborted(header)
                elif not transactions.is_aborted(header) and not self._map(batch, header):
                    return

    def _map(self, batch: memoryview, header: BatchHeader) -> bool:
        """False if there is no room for all keys: then `_end` lies in this batch."""
        room, newest, end = _MAX_KEYS - len(self._offset_map), self._offset_map, None
        found: dict[bytes, int] = {}
        try:
            for record in self._scan(unpack(batch, header), header):
                if record.key is None or record.offset < self._dirty_from or end is not None:
                    continue
                key = _short(record.key)
                if len(found) >= room and key not in found and key not in newest:
                    end = record.offset
                else:
                    found[key] = record.offset
        except KafkaError as error:
            _log.warning("the batch at offset %d stays, compaction cannot read it: %s", header.base_offset, error)
            self._unreadable.add(header.base_offset)
            return True
        newest.update(found)
        self._end = self._end if end is None else end
        return end is None

    def _rewrite(self) -> None:
        """Merges neighbours until a segment is half full: segments that shrink at each pass must not stay a file
        each."""
        group: list[LogSegment] = []
        new: LogSegment | None = None
        for segment in takewhile(lambda segment: segment.base_offset < self._end, self._segments):
            if new is None or new.size >= self._config.segment_bytes // 2:
                self._finish(group, new)
                self._unfinished = self._files.cleaned_storage(segment.base_offset)
                new = LogSegment(segment.base_offset, self._unfinished, self._config.index_interval_bytes)
                group = []
            group.append(segment)
            self._copy(segment, new)
        self._finish(group, new)

    def _finish(self, group: Sequence[LogSegment], new: LogSegment | None) -> None:
        if new is None:
            return
        if new.end_offset < group[-1].end_offset:
            new.append_cleaned([_bare(end_mark(group[-1].end_offset))], group[-1].modified)
        if len(group) == 1 and new.size == group[0].size:
            new.storage.delete()
        else:
            new.storage.sync()
            self.replacements.append(Replacement(group, new))

    def _copy(self, segment: LogSegment, new: LogSegment) -> None:
        parts: list[Buffer] = []
        size = 0
        for batch, header in self._batches(segment):
            part = self._marker(batch, header, new) if header.is_control else self._filtered(batch, header)
            if part is not None:
                parts.append(part)
                size += len(part)
            if size >= _WRITE_BYTES:
                new.append_cleaned(parts, segment.modified)
                parts, size = [], 0
        new.append_cleaned(parts, segment.modified)

    def _marker(self, batch: memoryview, header: BatchHeader, new: LogSegment) -> Buffer | None:
        """A marker that ends nothing any more goes, delete.retention.ms later. That of a producer without other records
        stays: it alone tells the producer's epoch (Cleaner.shouldDiscardBatch)."""
        marker = read_marker(batch, 0, header)
        if marker is not None and marker.commit:
            is_needed = self._transactions.ends_committed(header)
        else:
            aborted = self._transactions.ends_aborted(header)
            is_needed = aborted is not None
            if aborted is not None:
                new.aborted.append(aborted)
        is_other = marker is None and header.record_count > 0
        if is_needed or is_other or header.base_offset >= self._end or self._last_records.has(header):
            return batch
        horizon = header.delete_horizon
        if horizon is None and marker is not None:
            return _with_horizon(batch, header, self._now + self._config.delete_retention_ms)
        return batch if horizon is not None and horizon > self._now else None

    def _filtered(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        is_aborted = self._transactions.is_aborted(header)
        if header.base_offset >= self._end or header.base_offset in self._unreadable:
            return batch
        kept = _NOTHING if is_aborted else self._kept(batch, header)
        if kept is None:
            return batch
        if kept.number:
            return _rebuilt(header, kept)
        # As Kafka's Cleaner: a producer's last batch stays, for it says which sequence comes next. Its other rule, that
        # the last batch of a compaction stays to hold the end offset, `end_mark` does here, and readers never see it.
        return _emptied(header) if self._last_records.has(header) else None

    def _kept(self, batch: memoryview, header: BatchHeader) -> _Kept | None:
        """The records that stay; None if all of them do (Cleaner.shouldRetainRecord). Most batches need no second
        decoding for this."""
        if self._dirty_from <= header.base_offset and header.last_offset < self._end:
            survivors = self._survivors
            count = bisect_right(survivors, header.last_offset) - bisect_left(survivors, header.base_offset)
            if count == 0 or count == header.record_count:
                return None if count else _NOTHING
        try:
            return self._filter(batch, header)
        except KafkaError:
            return None

    def _filter(self, batch: memoryview, header: BatchHeader) -> _Kept | None:
        data = memoryview(unpack(batch, header))
        kept, count, newest = bytearray(), 0, -1
        begin = end = 0  # of the run of kept records that is not copied yet
        for record in self._scan(data, header):
            if self._keeps(record):
                count, newest = count + 1, max(newest, record.timestamp)
                if end != record.begin:
                    kept += data[begin:end]
                    begin = record.begin
                end = record.end
        kept += data[begin:end]
        return None if count == header.record_count and count else _Kept(kept, count, newest)

    def _keeps(self, record: Scanned) -> bool:
        if record.key is None or self._offset_map.get(_short(record.key), -1) > record.offset:
            return False
        return record.has_value or record.offset >= self._tombstones_end


_NOTHING = _Kept(bytearray(), 0, -1)


def _short(key: bytes) -> bytes:
    """Bounds the memory of a long key."""
    return key if len(key) <= _LONG_KEY else hashlib.blake2b(key, digest_size=16).digest()


def _rebuilt(header: BatchHeader, kept: _Kept) -> bytearray:
    """The batch with fewer records. Its range of offsets and its producer's fields stay."""
    newest = header.max_timestamp if header.is_log_append_time else kept.max_timestamp
    header = header._replace(record_count=kept.number, max_timestamp=newest)
    return frame_batch(header, compress(header.codec, kept.records))


def _with_horizon(batch: Buffer, header: BatchHeader, horizon: int) -> bytearray:
    """The marker with the time from which it may go, in place of its base timestamp (MemoryRecords.filterTo)."""
    (record,) = read_records(batch, 0, header)
    header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon)
    return frame_record(header, record)


def _emptied(header: BatchHeader) -> bytearray:
    """The batch's header alone."""
    return _bare(header._replace(attributes=header.attributes & ~_CODEC_BITS, record_count=0))


def _bare(header: BatchHeader) -> bytearray:
    return frame_batch(header, b"")
