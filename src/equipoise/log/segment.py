"""One segment of a log: raw record batches, one after the other, and facts about them.

The bytes are in a `Storage`, a file or memory. Only the event loop's thread appends to a segment. The bytes of a rolled
segment never change.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from equipoise.log.index import RecentBatches, SparseIndex
from equipoise.log.producer_state import AbortedTxn
from equipoise.log.storage.medium import Storage
from equipoise.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, Buffer, read_header

NO_TIMESTAMP = -1
_PEEK = 8192  # one look shows many headers of small batches, and costs little more than one header


class LogSegment:
    """Batches from `base_offset` to before `end_offset`."""

    def __init__(self, base_offset: int, storage: Storage, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.storage = storage
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1  # of the batch that holds it
        self.first_timestamp = NO_TIMESTAMP
        self.modified = NO_TIMESTAMP
        self.last_batch = 0  # its position
        self._ends_bare = False  # the last batch only says where the segment ends, see `is_end_mark`
        self.sealed_size = 0  # up to here a seal describes the segment, see `seal`
        self.aborted: list[AbortedTxn] = []  # transactions whose marker is in this segment, by its offset
        self._index = SparseIndex([(base_offset, 0, NO_TIMESTAMP)])
        self._index_interval_bytes = index_interval_bytes
        self._recent = RecentBatches()

    @property
    def size(self) -> int:
        """Bytes."""
        return self.storage.size

    @property
    def sealed(self) -> bool:
        """Whether a seal describes all of it."""
        return self.sealed_size == self.size

    @property
    def largest_timestamp(self) -> int:
        """The time that retention counts from: the last write, if producers gave no timestamps."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified

    def append(self, parts: Sequence[Buffer], headers: Sequence[BatchHeader], now: int) -> None:
        """Adds batches that each have records."""
        position = self.size
        self.storage.append(parts)
        for header in headers:
            self.note_batch(position, header, now)
            self._recent.add(header.last_offset, position)
            position += header.size

    def append_cleaned(self, parts: Sequence[Buffer], now: int) -> None:
        """Adds the batches that compaction keeps."""
        position = self.size
        self.storage.append(parts)
        for part in parts:
            self.note_batch(position, read_header(part), now)
            position += len(part)

    def note_batch(self, position: int, header: BatchHeader, now: int) -> None:
        """Notes a batch at `position`, the end so far."""
        if position - self._index.positions[-1] >= self._index_interval_bytes:
            self._index.insert(len(self._index.positions), header.base_offset, position, self.max_timestamp)
        if self.first_timestamp < 0:
            self.first_timestamp = header.max_timestamp if header.max_timestamp >= 0 else now
        if header.max_timestamp > self.max_timestamp and header.record_count:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.base_offset
        self.end_offset = header.last_offset + 1
        self.last_batch = position
        self._ends_bare = is_end_mark(header)
        self.modified = now

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Each batch from `position` on, as (position, header)."""
        seen, seen_from = self.storage.peek(position, _PEEK), position
        while position < self.size:
            if position + HEADER_SIZE > seen_from + len(seen):
                seen, seen_from = self.storage.peek(position, _PEEK), position
            header = read_header(seen, position - seen_from)
            if not HEADER_SIZE <= header.size <= self.size - position:
                raise OSError(errno.EIO, f"no batch where one was written, at byte {position}: the data is damaged")
            yield position, header
            position += header.size

    def _walk(self, entry: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yields each batch from an entry of the index on. Fills a thin index on the way."""
        index = self._index
        latest = index.timestamps[entry]
        for position, header in self.headers(index.positions[entry]):
            if entry + 1 < len(index.positions) and index.positions[entry + 1] == position:
                entry += 1
            elif position - index.positions[entry] >= self._index_interval_bytes:
                entry += 1
                index.insert(entry, header.base_offset, position, latest)
            yield position, header
            if header.record_count:
                latest = max(latest, header.max_timestamp)

    def position_of(self, offset: int, *, with_records: bool = False) -> int:
        """The position of the batch that holds `offset`, or of the next batch if compaction removed it.

        `with_records`: skips batches that compaction has emptied. None of the recent batches is empty.
        """
        if offset >= self.end_offset:
            return self.size
        recent = self._recent.position_of(offset)
        if recent is not None:
            return recent
        batches = self._walk(self._index.by_offset(offset))
        for position, header in batches:
            if header.last_offset >= offset and (header.record_count or not with_records):
                return position
        return self.size

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, bare: bool = False) -> list[memoryview]:
        """Returns whole batches, from the batch that holds `offset` to before `limit_offset`: at least one, if there is
        one.

        The first has records, unless `bare`: kafka-go jumps back to offset 1 after an answer that begins without
        records.
        """
        start, end = self.position_of(offset, with_records=not bare), self.position_of(limit_offset)
        if self._ends_bare and not bare:
            end = min(end, self.last_batch)
        if end - start > max_bytes:
            end = self._last_boundary(start, start + max_bytes)
        return self.storage.views(start, end) if start < end else []

    def _last_boundary(self, start: int, limit: int) -> int:
        """The end of the last batch that ends by `limit`, or of the batch at `start` if even that is longer."""
        for position, header in self._walk(self._index.by_position(limit)):
            if position + header.size > limit:
                return position if position > start else position + header.size
        return self.size

    def find_batch_by_timestamp(self, timestamp: int, from_offset: int) -> tuple[memoryview, BatchHeader] | None:
        """The first batch with records, from `from_offset` on, whose header promises a record of `timestamp` or
        later."""
        if self.max_timestamp < timestamp or self.end_offset <= from_offset:
            return None
        entry = max(self._index.by_timestamp(timestamp), self._index.by_offset(from_offset))
        for position, header in self._walk(entry):
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset and header.record_count:
                (view,) = self.storage.views(position, position + header.size)
                return view, header
        return None

    def offset_at(self, position: int) -> int:
        """The base offset of the batch at `position`, or the end offset."""
        if position >= self.size:
            return self.end_offset
        return read_header(self.storage.peek(position, HEADER_SIZE)).base_offset

    def seal(self) -> dict[str, Any]:
        """Facts about the bytes so far that let a later start trust them without reading them.

        The seal stays true while the segment grows. The last batch's CRC ties it to these bytes.
        """
        last = read_header(self.storage.peek(self.last_batch, HEADER_SIZE))
        return {
            "size": self.size,
            "last_batch": self.last_batch,
            "crc": last.crc,
            "end_offset": self.end_offset,
            "max_timestamp": self.max_timestamp,
            "max_timestamp_offset": self.max_timestamp_offset,
            "first_timestamp": self.first_timestamp,
            "index": self._index.thinned(),
            "aborted": self.aborted,
        }

    def unseal(self, seal: Mapping[str, Any]) -> bool:
        """Accepts a seal written earlier; False if it does not describe these bytes."""
        if seal["size"] > self.size or seal["last_batch"] + HEADER_SIZE > seal["size"]:
            return False
        last = read_header(self.storage.peek(seal["last_batch"], HEADER_SIZE))
        if (last.crc, last.last_offset + 1, seal["last_batch"] + last.size) != (
            seal["crc"],
            seal["end_offset"],
            seal["size"],
        ):
            return False
        self.sealed_size = seal["size"]
        self.last_batch = seal["last_batch"]
        self.end_offset = seal["end_offset"]
        self._ends_bare = is_end_mark(last)
        self.max_timestamp = seal["max_timestamp"]
        self.max_timestamp_offset = seal["max_timestamp_offset"]
        self.first_timestamp = seal["first_timestamp"]
        self._index = SparseIndex(seal["index"])
        self.aborted = [AbortedTxn(*entry) for entry in seal.get("aborted", ())]  # older seals have none
        return True


def end_mark(end_offset: int) -> BatchHeader:
    """The mark at the end of a compacted segment whose last records are gone: it gives the end offset.

    Kafka needs none: it reads the end of a segment from the name of the next. Here a gap means a lost file.
    """
    length = HEADER_SIZE - LOG_OVERHEAD
    return BatchHeader(end_offset - 1, length, 0, MAGIC, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0)


def is_end_mark(header: BatchHeader) -> bool:
    """A batch without records, and without a producer whose last sequence number it could give."""
    return header.record_count == 0 and header.producer_id < 0
