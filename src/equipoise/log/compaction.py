"""Compaction: of each key the newest record survives. Offsets never change.

Only rolled segments are touched, and their bytes never change, so the work can run on any thread: it reads
them through views taken beforehand and writes new segments beside them. The log puts these in place.

A tombstone is kept for delete.retention.ms from the first compaction that passed it, not from its own
timestamp: only from then on may a reader find the tombstone and not the values before it. The log's
checkpoint remembers, per compaction, up to which offset it came and when.
"""

from __future__ import annotations

import errno
import hashlib
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import takewhile

from equipoise.log.config import LogConfig
from equipoise.log.keys import read_keys
from equipoise.log.medium import Files, Replacement, Storage
from equipoise.log.segment import Segment
from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Buffer,
    crc_of,
    read_header,
    write_header,
)
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_records

_log = logging.getLogger(__name__)
_MAX_KEYS = 1_000_000  # about 200 MB; what does not fit is left for the next compaction, as in Kafka
_LONG_KEY = 32
_WRITE_BYTES = 1 << 20
_PAUSE_BYTES = 1 << 16
_CODEC_BITS = 0x07

Cleaned = tuple[tuple[int, int], ...]


def cleanable(segments: Sequence[Segment], config: LogConfig, cleaned: Cleaned, now: int) -> list[Segment]:
    """The segments at the log's start that a compaction should work on now; none if it is not worth it."""
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
    """One pass over `segments`. After `run`, `replacements` wait to be put in place and `cleaned` to be saved."""

    def __init__(
        self,
        segments: Sequence[Segment],
        config: LogConfig,
        files: Files,
        last_offsets: Set[int],
        cleaned: Cleaned,
        now: int,
    ) -> None:
        self.replacements: list[Replacement] = []
        self.cleaned = cleaned
        self._segments = segments
        self._views = {segment: segment.storage.views(0, segment.size) for segment in segments}
        self._config = config
        self._files = files
        self._last_offsets = last_offsets
        self._now = now
        expired = sum(time + config.delete_retention_ms <= now for _, time in cleaned)
        self._unexpired = cleaned[expired:]
        self._tombstones_end = cleaned[expired - 1][0] if expired else 0
        self._since_pause = 0
        self._unfinished: Storage | None = None
        self._newest: dict[bytes, int] = {}
        self._survivors: list[int] = []  # the offsets in it
        self._unreadable: set[int] = set()
        self._dirty_from = cleaned[-1][0] if cleaned else 0
        self._end = 0  # the first offset of which `_newest` knows nothing

    def run(self, pause: Callable[[], object] = lambda: None) -> None:
        """Does the work. `pause` is called after a millisecond or two of it, to let another thread go on."""
        self._pause = pause
        try:
            self._map_keys()
            self._survivors = sorted(self._newest.values())
            self._rewrite()
        except OSError as error:
            _log.warning("compaction stopped, it is tried again later: %s", error)
            if self._unfinished is not None:
                self._unfinished.delete()
        else:
            self.cleaned = (*self._unexpired, (self._end, self._now))

    def _batches(self, segment: Segment) -> Iterator[tuple[memoryview, BatchHeader]]:
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

    def _map_keys(self) -> None:
        """Learns the newest offset of each key, from what was not clean before."""
        for segment in self._segments:
            for batch, header in self._batches(segment) if segment.end_offset > self._dirty_from else ():
                if header.base_offset < self._dirty_from or header.is_control:
                    continue
                self._end = header.base_offset
                if len(self._newest) >= _MAX_KEYS:
                    return
                self._map(batch, header)
        self._end = self._segments[-1].end_offset

    def _map(self, batch: memoryview, header: BatchHeader) -> None:
        try:
            keys = read_keys(batch, header)
        except KafkaError as error:
            _log.warning("the batch at offset %d stays, compaction cannot read it: %s", header.base_offset, error)
            self._unreadable.add(header.base_offset)
            return
        newest = self._newest
        for offset, key in keys:
            if key is not None:
                newest[_short(key)] = offset

    def _rewrite(self) -> None:
        """Neighbours become one until that is half full: what shrinks at each pass must not stay a file each."""
        group: list[Segment] = []
        new: Segment | None = None
        for segment in takewhile(lambda segment: segment.base_offset < self._end, self._segments):
            if new is None or new.size >= self._config.segment_bytes // 2:
                self._finish(group, new)
                self._unfinished = self._files.cleaned_storage(segment.base_offset)
                new = Segment(segment.base_offset, self._unfinished, self._config.index_interval_bytes)
                group = []
            group.append(segment)
            self._copy(segment, new)
        self._finish(group, new)

    def _finish(self, group: Sequence[Segment], new: Segment | None) -> None:
        if new is None:
            return
        if len(group) == 1 and new.size == group[0].size:
            new.storage.delete()
        else:
            new.storage.sync()
            self.replacements.append(Replacement(group, new))

    def _copy(self, segment: Segment, new: Segment) -> None:
        parts: list[Buffer] = []
        size = 0
        for batch, header in self._batches(segment):
            # A segment's last batch stays, if only as a header: it says where the segment ends.
            part = self._filtered(batch, header, must_stay=header.last_offset + 1 == segment.end_offset)
            if part is not None:
                parts.append(part)
                size += len(part)
            if size >= _WRITE_BYTES:
                _write(new, parts, segment.modified)
                size = 0
        _write(new, parts, segment.modified)

    def _filtered(self, batch: memoryview, header: BatchHeader, *, must_stay: bool) -> Buffer | None:
        if header.is_control or header.base_offset >= self._end or header.base_offset in self._unreadable:
            return batch
        kept = self._kept(batch, header)
        if kept is None:
            return batch
        if kept:
            return _rebuilt(header, kept)
        # A producer's last batch says which sequence comes next.
        if must_stay or (header.producer_id >= 0 and header.last_offset in self._last_offsets):
            return _emptied(header)
        return None

    def _kept(self, batch: memoryview, header: BatchHeader) -> Sequence[Record] | None:
        """The records that stay; None if all of them do. Most batches need no second decoding to know."""
        if header.base_offset >= self._dirty_from:
            survivors = self._survivors
            count = bisect_right(survivors, header.last_offset) - bisect_left(survivors, header.base_offset)
            if count == 0 or count == header.record_count:
                return None if count else ()
        try:
            records = read_records(batch, 0, header)
        except KafkaError:
            return None
        kept = [record for record in records if self._keeps(record)]
        return None if kept and len(kept) == len(records) else kept

    def _keeps(self, record: Record) -> bool:
        if record.key is None or self._newest.get(_short(record.key), -1) > record.offset:
            return False
        return record.value is not None or record.offset >= self._tombstones_end


def _short(key: bytes) -> bytes:
    """Bounds the memory that a long key takes."""
    return key if len(key) <= _LONG_KEY else hashlib.blake2b(key, digest_size=16).digest()


def _rebuilt(header: BatchHeader, records: Sequence[Record]) -> bytearray:
    """The batch with fewer records: its range of offsets and its producer's fields stay."""
    return build_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
        log_append_time=header.max_timestamp if header.is_log_append_time else None,
    )


def _emptied(header: BatchHeader) -> bytearray:
    """The batch's header alone."""
    batch = bytearray(HEADER_SIZE)
    header = header._replace(
        batch_length=HEADER_SIZE - LOG_OVERHEAD, attributes=header.attributes & ~_CODEC_BITS, record_count=0
    )
    write_header(batch, 0, header)
    write_header(batch, 0, header._replace(crc=crc_of(batch, 0, HEADER_SIZE)))
    return batch


def _write(segment: Segment, parts: list[Buffer], now: int) -> None:
    segment.append(parts, [read_header(part) for part in parts], now)
    parts.clear()
