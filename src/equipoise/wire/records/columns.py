"""Encodes Arrow columns as record batches, without a Python object per record: the reverse of `arrow.py`.

A record is a row of cells: numbers, key, length of the value, value, headers. numpy makes the numbers, a column at a
time. One gather by Arrow then writes the cells of all rows one after the other. Needs the extra `equipoise[arrow]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import MAGIC, BatchHeader, Codec
from equipoise.wire.records.codecs import compress

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from numpy.typing import NDArray

    from equipoise.wire.records.lanes import Bytes, Ints
except ImportError as error:
    raise UsageError(f"Arrow columns need numpy and pyarrow ({error}): pip install 'equipoise[arrow]'") from None

_NUMBERS_SIZE = 5 + 1 + 10 + 5 + 5 + 5  # length, attributes, two deltas, two lengths: the most they can take
# As `pa.array` would make it, which imports pandas for it.
_NO_HEADERS = pa.Array.from_buffers(
    pa.binary(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\0")]
)


class RecordColumns:
    """Keys, values and headers by row. Null keys, values and header values stay null. `headers` is as in
    `arrow.SCHEMA`.

    `sizes` has the largest number of bytes that each row's record can take.
    """

    def __init__(self, key: pa.Array | None, value: pa.Array, headers: pa.Array | None = None) -> None:
        self._key = pa.nulls(len(value), pa.binary()) if key is None else key.cast(pa.binary())
        self._value = value.cast(pa.binary())
        self._key_length, self._value_length = _lengths(self._key), _lengths(self._value)
        self._headers = None if headers is None else _pack_headers(headers)
        self.sizes = _NUMBERS_SIZE + np.maximum(self._key_length, 0) + np.maximum(self._value_length, 0)
        self.sizes += 1 if self._headers is None else _lengths(self._headers)

    def batches(
        self, rows: Ints, ends: Sequence[int], timestamp: Ints | int, codec: Codec = Codec.NONE
    ) -> Iterator[tuple[BatchHeader, bytes | memoryview]]:
        """Returns batches of these rows, in order: the first up to `ends[0]`, each other from there to its own end.

        Each is a header without producer, length and CRC, and the compressed records; `build.frame_batch` completes it.
        `timestamp` has a value for each row, or one for all.
        """
        begins = np.array([0, *ends[:-1]], np.int64)
        counts = np.array(ends, np.int64) - begins
        times = np.full(len(rows), timestamp, np.int64) if isinstance(timestamp, int) else timestamp[rows]
        deltas = np.arange(len(rows)) - np.repeat(begins, counts)
        records = self._records(rows, deltas, times - np.repeat(times[begins], counts))
        _, offsets, data = records.buffers()
        places = np.frombuffer(offsets, np.int32)
        view = memoryview(data)
        for begin, end in zip(begins.tolist(), ends, strict=True):
            header = _header(end - begin, times[begin:end], codec)
            yield header, _compressed(codec, view[places[begin] : places[end]])

    def _records(self, rows: Ints, offset_delta: Ints, timestamp_delta: Ints) -> pa.Array:
        key_length, value_length = self._key_length[rows], self._value_length[rows]
        tail = _NO_HEADERS if self._headers is None else self._headers
        fields = [_varints(timestamp_delta), _varints(offset_delta), _varints(key_length), _varints(value_length)]
        length = np.maximum(key_length, 0) + np.maximum(value_length, 0) + 1
        length += 1 if self._headers is None else _lengths(self._headers)[rows]
        for _, size in fields:
            length += size
        numbers = _cells([_varints(length), _ZERO, *fields[:3]], len(rows))
        last = np.zeros(len(rows), np.int64) if self._headers is None else rows
        return _join(
            (numbers, None), (self._key, rows), (_cells(fields[3:], len(rows)), None), (self._value, rows), (tail, last)
        )


def _header(count: int, times: Ints, codec: Codec) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=int(times[0]),
        max_timestamp=int(times.max()),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


def _compressed(codec: Codec, records: memoryview) -> bytes | memoryview:
    return records if codec is Codec.NONE else compress(codec, records)


def _pack_headers(headers: pa.Array) -> pa.Array:
    """The bytes of each row's headers, with their count before them."""
    pairs = headers.flatten()
    names, values = pairs.field(0).cast(pa.binary()), pairs.field(1).cast(pa.binary())
    if pairs.null_count or names.null_count:
        raise UsageError("a header without a key cannot be written: give each a key, or leave it out")
    entries = _join((_sized(names), None), (names, None), (_sized(values), None), (values, None))
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.frombuffer(entries.buffers()[1], np.int32)[np.concatenate(([0], np.cumsum(counts)))]
    by_row = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(places), entries.buffers()[2]])
    return _join((_cells([_varints(counts)], len(counts)), None), (by_row, None))


def _join(*columns: tuple[pa.Array, Ints | None]) -> pa.Array:
    """One binary of each row's cells: a cell of each column, at the row's own place or at the given place."""
    n = max(len(column) if places is None else len(places) for column, places in columns)
    picks = np.empty((n, len(columns)), np.int32)  # what Arrow counts bytes in has room for rows too
    first = 0
    for number, (column, places) in enumerate(columns):
        picks[:, number] = (np.arange(n) if places is None else places) + first
        first += len(column)
    cells = pa.concat_arrays([column for column, _ in columns]).take(pa.array(picks.ravel()))
    if not n:
        return cells
    offsets = np.frombuffer(cells.buffers()[1], np.int32)[: len(cells) + 1 : len(columns)]
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets.copy()), cells.buffers()[2]])


def _lengths(column: pa.Array) -> Ints:
    """Bytes by row; -1: null."""
    lengths: Ints = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    return lengths


def _sized(column: pa.Array) -> pa.Array:
    return _cells([_varints(_lengths(column))], len(column))


_Varints = tuple[Bytes, NDArray[np.int64]]  # the bytes of each number in a row as wide as the longest, and its size


def _varints(numbers: Ints) -> _Varints:
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    highest = int(zigzag.max()) if len(zigzag) else 0
    size = np.ones(len(zigzag), np.int64)
    columns = [zigzag & np.uint64(0x7F)]
    while highest >> 7 * len(columns):
        rest = zigzag >> np.uint64(7 * len(columns))
        columns[-1] |= (rest > 0).astype(np.uint64) << np.uint64(7)
        size += rest > 0
        columns.append(rest & np.uint64(0x7F))
    return np.stack(columns, axis=1).astype(np.uint8), size


_ZERO: _Varints = np.zeros((1, 1), np.uint8), np.ones(1, np.int64)


def _cells(fields: Sequence[_Varints], n: int) -> pa.Array:
    """A binary of each row, its numbers one after the other."""
    bytes_ = np.empty((n, sum(data.shape[1] for data, _ in fields)), np.uint8)
    used = np.empty(bytes_.shape, np.bool_)
    offsets = np.zeros(n + 1, np.int32)
    at = 0
    for data, size in fields:
        for number in range(data.shape[1]):
            bytes_[:, at] = data[:, number]
            used[:, at] = size > number if number else True
            at += 1
        offsets[1:] += size.astype(np.int32)
    np.cumsum(offsets, out=offsets)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(bytes_[used])])
