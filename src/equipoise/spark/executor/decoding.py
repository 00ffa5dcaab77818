"""Decodes fetched batches to Arrow columns for Spark: several ranges at once, and only the requested columns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from equipoise.client.fetch.completed_fetch import together
from equipoise.member.partitions import TopicPartition
from equipoise.spark.schema import arrow_schema
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.arrow import as_column, gather, gather_headers
from equipoise.wire.records.batch import BatchHeader, Codec
from equipoise.wire.records.lanes import Bytes, Ints
from equipoise.wire.records.rows import Arena, Rows, TooMuchError, cut, read_at_once, read_slices

_MOST_BYTES = 1 << 20  # of one record batch, for Spark: larger ones leave the processor's cache, small ones cost more
_MOST_ROWS = 32_768  # of one record batch, where few columns are asked for
_PIECE_BYTES = 4 << 20  # of records that are expanded and decoded in one go: they stay in the processor's cache
_MOST_PACKED = 1 << 20  # bytes of compressed batches in one go, however little may come of them
_FIRST_GUESS = 8  # times the compressed size, before anything was expanded
_MOST_TOPICS = 64  # whose names are kept written out
_MOST_MILLISECONDS = (2**63 - 1) // 1000  # Spark counts microseconds
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class FetchedRange(NamedTuple):
    """What one fetch brought of a range: batches that may reach beyond its offsets [first, end)."""

    partition: TopicPartition
    first: int
    end: int
    data: memoryview
    batches: list[tuple[int, BatchHeader]]

    @property
    def size(self) -> int:
        """Of the data, in bytes."""
        return len(self.data)


class _Decoded(NamedTuple):
    data: Bytes
    rows: Rows
    parts: Sequence[FetchedRange]
    counts: Ints  # rows of each part


class _Room(threading.local):
    """Of this thread, from one task to the next: where records are expanded, and how far they did lately."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.expansion = float(_FIRST_GUESS)


_room = _Room()


def decode(parts: Sequence[FetchedRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches of moderate size. KafkaError where the bytes are no records."""
    for some in _portions(parts):
        yield from _decode(some, columns)


def _portions(parts: Sequence[FetchedRange]) -> Iterator[Sequence[FetchedRange]]:
    """What is decoded in one go: all that a fetch brought, as each go has its cost; but of compressed data not more
    than has room when it is expanded."""
    if any(_is_packed(part) for part in parts) and sum(len(part.data) for part in parts) > _most_packed():
        for part in parts:
            yield from ([piece] for piece in _pieces(part))
    elif parts:
        yield parts


def _is_packed(part: FetchedRange) -> bool:
    return any(header.codec is not Codec.NONE for _, header in part.batches)


def _most_packed() -> int:
    """Compressed bytes in one go, by what came of them lately. A batch cannot be divided."""
    return min(_MOST_PACKED, int(_PIECE_BYTES / _room.expansion))


def _pieces(part: FetchedRange) -> Iterator[FetchedRange]:
    """The part, cut between batches so that none has too many bytes."""
    size, first = 0, 0
    for at, (_, header) in enumerate(part.batches):
        if size and size + header.size > _most_packed():
            yield part._replace(batches=part.batches[first:at])
            size, first = 0, at
        size += header.size
    yield part._replace(batches=part.batches[first:])


def _decode(parts: Sequence[FetchedRange], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    try:
        for decoded in _read(parts):
            arrays = [_COLUMNS[name](decoded) for name in columns]
            batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(columns))
            slices = min(max(-(-batch.num_rows // _MOST_ROWS), -(-batch.nbytes // _MOST_BYTES)), batch.num_rows)
            for number in range(slices):  # of equal size: a small one would cost as much
                at = number * batch.num_rows // slices
                yield batch.slice(at, (number + 1) * batch.num_rows // slices - at)
    except KafkaError as error:
        ranges = ", ".join(f"{part.partition} from offset {part.first} on" for part in parts)
        raise KafkaError(error.code, f"{ranges}: {error.message}") from None


@cache
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return arrow_schema(columns)


def _read(parts: Sequence[FetchedRange]) -> Iterator[_Decoded]:
    """All of them at once; if that is too much, as millions of records may come of a few kilobytes, in slices."""
    try:
        yield _read_together(parts)
    except TooMuchError:
        for part in parts:
            for bytes_, rows in read_slices(part.data, part.batches, part.first):
                yield _clip(_Decoded(bytes_, rows, [part], np.array([len(rows.offset)])))


def _read_together(parts: Sequence[FetchedRange]) -> _Decoded:
    data, begins = (parts[0].data, [0]) if len(parts) == 1 else together(parts)
    batches, first, owners = [], [], []
    for index, (part, begin) in enumerate(zip(parts, begins, strict=True)):
        batches += [(begin + pos, header) for pos, header in part.batches]
        first += [part.first] * len(part.batches)
        owners += [index] * len(part.batches)
    is_from_start = all(header.base_offset >= at for (_, header), at in zip(batches, first, strict=True))
    bytes_, rows, found = read_at_once(data, batches, None if is_from_start else first, _room.arena)
    if any(map(_is_packed, parts)):
        _room.expansion = max(1.0, len(bytes_) / sum(header.size for _, header in batches))
    counts = np.bincount(owners, weights=found, minlength=len(parts)).astype(np.int64)
    return _clip(_Decoded(bytes_, rows, parts, counts))


def _clip(decoded: _Decoded) -> _Decoded:
    """Without what lies behind the end of each range."""
    data, rows, parts, counts = decoded
    if all(part.batches[-1][1].last_offset < part.end for part in parts):
        return decoded
    keep = rows.offset < np.repeat(np.array([part.end for part in parts], np.int64), counts)
    owner = np.repeat(np.arange(len(parts)), counts)
    return _Decoded(data, cut(rows, keep), parts, np.bincount(owner[keep], minlength=len(parts)))


# -- columns


def _topic(decoded: _Decoded) -> pa.Array:
    runs: list[tuple[str, int]] = []
    for part, count in zip(decoded.parts, decoded.counts.tolist(), strict=True):
        if runs and runs[-1][0] == part.partition.topic:
            runs[-1] = part.partition.topic, runs[-1][1] + count
        else:
            runs.append((part.partition.topic, count))
    columns = [_repeated(topic, count) for topic, count in runs]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _repeated(text: str, count: int) -> pa.Array:
    return _many(text, max(_MOST_ROWS, 1 << count.bit_length())).slice(0, count)


@lru_cache(_MOST_TOPICS)
def _many(text: str, count: int) -> pa.Array:
    encoded = text.encode()
    ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, ends, pa.py_buffer(encoded * count)])


def _partition(decoded: _Decoded) -> pa.Array:
    numbers = np.array([part.partition.partition for part in decoded.parts], np.int32)
    return as_column(np.repeat(numbers, decoded.counts))


def _timestamp(decoded: _Decoded) -> pa.Array:
    milliseconds = decoded.rows.timestamp
    if len(milliseconds) and max(-int(milliseconds.min()), int(milliseconds.max())) > _MOST_MILLISECONDS:
        worst = int(np.argmax(np.abs(milliseconds)))
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"the record at offset {decoded.rows.offset[worst]} has timestamp {milliseconds[worst]} ms, which Spark "
            "cannot hold: give the reader a schema without the column timestamp to read it",
        )
    return as_column(milliseconds * 1000).view(_TIMESTAMP)


def _headers(decoded: _Decoded) -> pa.Array:
    return gather_headers(decoded.data, decoded.rows).cast(_schema(("headers",)).field(0).type)


_COLUMNS: dict[str, Callable[[_Decoded], pa.Array]] = {
    "key": lambda decoded: gather(pa.py_buffer(decoded.data), decoded.rows.key, decoded.rows.no_key),
    "value": lambda decoded: gather(pa.py_buffer(decoded.data), decoded.rows.value, decoded.rows.no_value),
    "topic": _topic,
    "partition": _partition,
    "offset": lambda decoded: as_column(decoded.rows.offset),
    "timestamp": _timestamp,
    "timestampType": lambda decoded: as_column(decoded.rows.timestamp_type),
    "headers": _headers,
}
