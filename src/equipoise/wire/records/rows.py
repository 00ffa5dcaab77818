"""Finds the positions of all fields in a run of record batches with numpy, for columns and for records.

One pass reads the batches' headers, one finds where records begin, and one reads their numbers. There is no Python
object per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, Codec, corrupt
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, decompress, decompress_into, expand
from equipoise.wire.records.lanes import Bytes, Ints, field_starts, lengths, varints
from equipoise.wire.records.read import check_room

_CHUNK = 16 * 1024  # rows whose positions and numbers stay in the processor's cache
_COLUMN_LIMIT = 2**31 - 1  # Arrow's binary columns count their bytes in 32 bits
_FIRST_GUESS = 8  # times the compressed size: the room made ready for what it expands to
_ARENA_BYTES = 16 << 20  # of an arena that is kept
# A few kilobytes may hold tens of millions of records. What is read in one go takes at most so much:
MOST_ROWS = 1 << 18
MOST_BYTES = 64 << 20  # of records, expanded
ROW_BYTES = 70  # that a row takes in `Rows`

Batches = Sequence[tuple[int, BatchHeader]]
Flags = NDArray[np.bool_]
Spans = NDArray[np.int32]  # a row's begin and end in the bytes


class _Chains(NamedTuple):
    """The contents of the headers, an entry for each batch that has records."""

    begin: Ints
    end: Ints
    records: Ints
    base_offset: Ints
    last_offset_delta: Ints
    base_timestamp: Ints
    timestamp_type: Ints


class Rows(NamedTuple):
    """The contents of the records, an entry each. Offsets and timestamps are deltas until `_place` adds their base."""

    end: Ints
    offset: Ints
    timestamp: Ints
    key: Spans
    no_key: Flags
    value: Spans
    no_value: Flags
    header_count: Ints
    header_begin: Ints
    timestamp_type: NDArray[np.int32]


class TooMuchError(UsageError):
    """More than is read at once; `read_slices` reads it in several steps."""


class Arena:
    """Room for expanded records that is used again: fresh memory costs the kernel a fault for each page.

    What was read into it is lost with the next read. It grows with what it held before, so that records are expanded
    once and not moved."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.uint8)

    def room(self, size: int) -> Bytes:
        """At least so many bytes."""
        return self._room if len(self._room) >= size else np.empty(size, np.uint8)

    def keep(self, room: Bytes) -> None:
        """For the next read. What is much larger than usual is given back."""
        self._room = room if len(room) <= _ARENA_BYTES else self._room


def read_at_once(
    buf: Buffer, batches: Batches, first: Sequence[int] | None = None, arena: Arena | None = None
) -> tuple[Bytes, Rows, Ints]:
    """As `read_rows`, but raises TooMuchError for more than MOST_ROWS records or MOST_BYTES bytes."""
    if sum(header.record_count for _, header in batches) > MOST_ROWS:
        raise TooMuchError(f"more than {MOST_ROWS} records")
    return read_rows(buf, batches, first, most=MOST_BYTES, arena=arena)


def read_slices(buf: Buffer, batches: Batches, first: int) -> Iterator[tuple[Bytes, Rows]]:
    """The same from offset `first` on, at most MOST_ROWS records at a time, batch by batch. It holds one expanded
    batch, of at most DECOMPRESSED_LIMIT bytes."""
    for pos, header in batches:
        if not header.record_count:
            continue
        data, chain = _one(buf, pos, header)
        left = header.record_count
        while left:
            count = min(MOST_ROWS, left)
            left -= count
            some = chain._replace(records=np.array([count]))
            rows = _place(_read_rows(data, some, is_whole=not left), some)
            chain = chain._replace(begin=rows.end[-1:].copy())
            yield data, rows if rows.offset[0] >= first else cut(rows, rows.offset >= first)


def _one(buf: Buffer, pos: int, header: BatchHeader) -> tuple[Bytes, _Chains]:
    """The bytes of a batch's records, without a second copy of large data."""
    begin, end = pos + HEADER_SIZE, pos + header.size
    if header.codec is not Codec.NONE:
        buf = expand(header.codec, memoryview(buf)[begin:end], limit=DECOMPRESSED_LIMIT)
        begin, end = 0, len(buf)
    chain = np.array([_entry(header, begin, end)], np.int64)
    return np.frombuffer(buf, np.uint8), _Chains(*chain.T.copy())


def read_rows(
    buf: Buffer,
    batches: Batches,
    first: Sequence[int] | None = None,
    *,
    most: int = _COLUMN_LIMIT,
    arena: Arena | None = None,
) -> tuple[Bytes, Rows, Ints]:
    """Reads the records of these batches of `buf`; if `first` is given, only those from that offset on, of each batch.

    Returns the bytes that hold them, the positions of their parts, and the number of records of each batch. The caller
    checks CRCs. Compressed records are expanded into `arena`, if one is given. Raises KafkaError(CORRUPT_MESSAGE) for
    bytes that are no records, UsageError if a column could pass 2 GiB, TooMuchError if compressed records take more
    than `most` bytes.
    """
    data, chains = _join(buf, batches, most, arena or Arena())
    counts = np.array([header.record_count for _, header in batches], np.int64)
    rows = _place(_read_rows(data, chains), chains)
    if first is None or all(header.base_offset >= at for (_, header), at in zip(batches, first, strict=True)):
        return data, rows, counts
    keep = rows.offset >= np.repeat(np.array(first, np.int64), counts)
    if keep.all():
        return data, rows, counts
    batch_of_row = np.repeat(np.arange(len(batches)), counts)
    return data, cut(rows, keep), np.bincount(batch_of_row[keep], minlength=len(batches))


def _join(buf: Buffer, batches: Batches, most: int, arena: Arena) -> tuple[Bytes, _Chains]:
    """The bytes that hold all records, and the positions of each batch's: `buf` itself if none is compressed."""
    if any(header.codec is not Codec.NONE for _, header in batches):
        data, spans = _expand(memoryview(buf), batches, most, arena)
    else:
        _check_size(len(buf))
        data = np.frombuffer(buf, np.uint8)
        spans = [(pos + HEADER_SIZE, pos + header.size) for pos, header in batches]
    entries = [_entry(header, *span) for (_, header), span in zip(batches, spans, strict=True)]
    entries = [entry for entry in entries if entry[2]]
    return data, _Chains(*np.array(entries, np.int64).reshape(-1, 7).T.copy())


def _entry(header: BatchHeader, begin: int, end: int) -> tuple[int, ...]:
    check_room(header, end - begin)
    if not header.record_count and begin != end:
        raise corrupt(f"{end - begin} bytes are left after the batch's 0 records")
    append_time = header.is_log_append_time
    return (
        begin,
        end,
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.max_timestamp if append_time else header.base_timestamp,
        append_time,
    )


def _expand(view: memoryview, batches: Batches, most: int, arena: Arena) -> tuple[Bytes, list[tuple[int, int]]]:
    """Decompresses all records one after the other, each straight to its place. A byte more is given where there is
    one, because fields are read in pairs of bytes."""
    guess = _FIRST_GUESS * sum(header.size for _, header in batches)
    room, used = arena.room(min(guess, most)), 0
    spans = []
    for pos, header in batches:
        packed = view[pos + HEADER_SIZE : pos + header.size]
        size = decompress_into(header.codec, packed, room.data[used : used + DECOMPRESSED_LIMIT])
        if size is None:
            whole = _expand_one(header.codec, packed, most - used)
            size = len(whole)
            room = np.concatenate((room[:used], np.frombuffer(whole, np.uint8), np.empty(used + size, np.uint8)))
        spans.append((used, used + size))
        used += size
        _check_size(used)
        if used > most:
            raise TooMuchError(f"more than {most} bytes of records")
    arena.keep(room)
    return room[: used + 1], spans


def _expand_one(codec: Codec, packed: memoryview, room: int) -> bytes:
    try:
        return decompress(codec, packed, limit=min(room, DECOMPRESSED_LIMIT))
    except KafkaError as error:
        if room >= DECOMPRESSED_LIMIT:
            raise
        raise TooMuchError(error.message) from None  # or corrupt, which shows when it is read alone


def _check_size(size: int) -> None:
    if size > _COLUMN_LIMIT:
        raise UsageError(
            f"the batches hold {size} bytes of records or more, an Arrow column at most {_COLUMN_LIMIT}:"
            " decode smaller fetches (fetch.max.bytes, max.partition.fetch.bytes)"
        )


def _read_rows(data: Bytes, chains: _Chains, *, is_whole: bool = True) -> Rows:
    """`is_whole`: these are all records of their batches; otherwise the first few."""
    starts = field_starts(data, chains.begin, chains.records) if len(chains.records) else chains.begin
    n = len(starts)
    rows = Rows(
        end=np.empty(n, np.int64),
        offset=np.empty(n, np.int64),
        timestamp=np.empty(n, np.int64),
        key=np.empty((n, 2), np.int32),
        no_key=np.empty(n, np.bool_),
        value=np.empty((n, 2), np.int32),
        no_value=np.empty(n, np.bool_),
        header_count=np.empty(n, np.int64),
        header_begin=np.empty(n, np.int64),
        timestamp_type=np.repeat(chains.timestamp_type.astype(np.int32), chains.records),
    )
    for at in range(0, n, _CHUNK):
        _read_chunk(data, starts[at : at + _CHUNK], cut(rows, slice(at, at + _CHUNK)))
    if is_whole and n and (rows.end[np.cumsum(chains.records) - 1] != chains.end).any():
        raise corrupt("the lengths of a batch's records do not add up to the batch's length")
    return rows


def _read_chunk(data: Bytes, pos: Ints, rows: Rows) -> None:
    length, pos = lengths(data, pos)
    np.add(pos, length, out=rows.end)
    rows.timestamp[:], pos = varints(data, pos + 1)  # 1: the attributes, which have no meaning yet
    rows.offset[:], pos = varints(data, pos)
    pos = _read_span(data, pos, rows.key, rows.no_key)
    pos = _read_span(data, pos, rows.value, rows.no_value)
    rows.header_count[:], pos = lengths(data, pos)
    rows.header_begin[:] = pos
    # Fields only ever move forward, so one that left its record shows in where the last ends.
    room = rows.end - pos
    if (room < 2 * rows.header_count).any() or ((room != 0) & (rows.header_count <= 0)).any():
        raise corrupt("the fields of a record do not add up to its length")
    if rows.header_count.min() < 0:
        raise corrupt("a record declares -1 headers")


def _read_span(data: Bytes, pos: Ints, span: Spans, null: Flags) -> Ints:
    length, begin = lengths(data, pos)
    np.less(length, 0, out=null)
    end = begin + np.maximum(length, 0)
    span[:, 0], span[:, 1] = begin, end
    return end


def _place(rows: Rows, chains: _Chains) -> Rows:
    """Adds the base of each batch's header to the deltas."""
    last = np.repeat(chains.last_offset_delta, chains.records)
    if ((rows.offset < 0) | (rows.offset > last)).any():
        raise corrupt("a record's offset delta lies outside its batch's range of offsets")
    rows.offset[:] += np.repeat(chains.base_offset, chains.records)
    if chains.timestamp_type.any():
        rows.timestamp[rows.timestamp_type == 1] = 0
    base = np.repeat(chains.base_timestamp, chains.records)
    timestamp = base + rows.timestamp
    if (((timestamp ^ base) & (timestamp ^ rows.timestamp)) < 0).any():  # a sum with a sign that neither had
        raise corrupt("a record's timestamp needs more than 64 bits")
    return rows._replace(timestamp=timestamp)


def cut(rows: Rows, which: slice | Flags) -> Rows:
    """The same columns for a part of the rows."""
    return Rows._make(column[which] for column in rows)
