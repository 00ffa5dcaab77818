"""Decodes records of `__consumer_offsets` to columns: offset commits by numpy, without a Python object per record.

There are millions of commits, on few partitions: each distinct key is decoded once, and all values together. Records of
groups are few; each becomes a line of JSON, like the journal's entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from equipoise.spark.history.schemas import ROWS, TIME
from equipoise.views.entries import group_entry
from equipoise.wire.records.arrow import as_column, gather, text
from equipoise.wire.records.lanes import Bytes, Ints

INPUT = ("key", "value", "offset", "timestamp")  # the columns of the topic that are needed
COMMIT, GROUP = "commit", "group"  # what a row is
_COMMIT_KEYS = (0, 1)
_GROUP_KEY = 2
_OTHER = -1
_NEWEST_VALUE = 4
_WIDEST = 8  # bytes of an integer: that many may be read behind the last row
_VARINT_BYTES = 5

Flags = NDArray[np.bool_]


class _Keys(NamedTuple):
    kind: Ints
    group: pa.Array
    topic: pa.Array
    partition: Ints


class _Values(NamedTuple):
    readable: Flags
    offset: Ints
    leader_epoch: Ints
    metadata: pa.Array
    committed_at: Ints


def decode(batches: Iterable[pa.RecordBatch], group: str | None = None) -> Iterator[pa.RecordBatch]:
    """Decodes batches of `INPUT` to batches of `ROWS`, of one group or all.

    Records of unknown versions and groups of other types are left out.
    """
    for batch in batches:
        batch = batch.filter(batch["key"].is_valid()) if batch["key"].null_count else batch
        if batch.num_rows:
            keys = batch["key"].dictionary_encode()
            known = _read_keys(keys.dictionary)
            if group is not None:
                known.kind[np.asarray(pc.not_equal(known.group, group))] = _OTHER
            code = np.asarray(keys.indices)
            kind = known.kind[code]
            yield _commits(batch, known, code, kind)
            rows = np.flatnonzero(kind == _GROUP_KEY)
            if len(rows):
                yield _groups(batch.take(as_column(rows)))


# -- commits


def _commits(batch: pa.RecordBatch, known: _Keys, code: Ints, kind: Ints) -> pa.RecordBatch:
    is_commit = np.isin(kind, _COMMIT_KEYS)
    if not is_commit.all():
        batch, code = batch.filter(_flags(is_commit)), code[is_commit]
    values = _read_values(batch["value"])
    is_null = batch["value"].is_null().to_numpy(zero_copy_only=False)
    codes = as_column(code)
    columns = [
        _constant(COMMIT, batch.num_rows),
        known.group.take(codes),
        known.topic.take(codes),
        as_column(known.partition[code].astype(np.int32)),
        _nullable(as_column(values.offset), is_null),
        _nullable(as_column(values.leader_epoch.astype(np.int32)), is_null),
        _nullable(values.metadata, is_null),
        _nullable(as_column(values.committed_at * 1000).view(TIME), is_null),
        batch["timestamp"],
        batch["offset"],
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=ROWS)
    readable = values.readable | is_null
    return rows if readable.all() else rows.filter(_flags(readable))


def _read_keys(keys: pa.Array) -> _Keys:
    """Type, group, topic and partition of each key. Keys of other records than commits have the first two only."""
    data, begin, end = _spans(keys)
    kind, group_size = _ints(data, begin, ">i2"), _ints(data, begin + 2, ">i2")
    group_end = np.minimum(begin + 4 + np.maximum(group_size, 0), end)
    topic_end = np.minimum(group_end + 2 + np.maximum(_ints(data, group_end, ">i2"), 0), end)
    is_whole = (topic_end + 4 == end) | ((kind == _GROUP_KEY) & (group_end == end))
    return _Keys(
        np.where(is_whole & (group_size >= 0), kind, _OTHER),
        _texts(data, np.minimum(begin + 4, group_end), group_end),
        _texts(data, np.minimum(group_end + 2, topic_end), topic_end),
        _ints(data, topic_end, ">i4"),
    )


def _read_values(values: pa.Array) -> _Values:
    """Offset, metadata and time, in this order in all versions. Newer versions have a leader epoch after the offset."""
    data, begin, end = _spans(values)
    version = _ints(data, begin, ">i2")
    has_epoch = version >= 3
    size, text_begin = _sizes(data, begin + 10 + 4 * has_epoch, version >= 4)
    text_end = text_begin + size
    readable = (version >= 0) & (version <= _NEWEST_VALUE) & (size >= 0) & (text_end + 8 <= end)
    if not readable.all():  # nothing of the others is looked at, but the order of all must hold
        text_begin, text_end = np.where(readable, text_begin, begin), np.where(readable, text_end, begin)
    return _Values(
        readable,
        _ints(data, begin + 2, ">i8"),
        np.where(has_epoch, _ints(data, begin + 10, ">i4"), -1),
        _texts(data, text_begin, text_end),
        _ints(data, text_end, ">i8"),
    )


def _sizes(data: Bytes, at: Ints, is_compact: Flags) -> tuple[Ints, Ints]:
    """The length of each text and its start. The length is an int16, or a varint that is one more."""
    size, begin = _ints(data, at, ">i2"), at + 2
    if not is_compact.any():
        return size, begin
    compact, taken = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    goes_on = is_compact
    for turn in range(_VARINT_BYTES):
        byte = data.take(at + turn, mode="clip").astype(np.int64)
        compact += np.where(goes_on, (byte & 0x7F) << 7 * turn, 0)
        taken += goes_on
        goes_on = goes_on & (byte > 0x7F)
        if not goes_on.any():
            break
    return np.where(is_compact, compact - 1, size), np.where(is_compact, at + taken, begin)


# -- bytes


def _spans(column: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """The bytes of a column, with some to spare, and the start and end of each row in them."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    found = np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else np.empty(0, np.uint8)
    return np.append(found, np.zeros(_WIDEST, np.uint8)), ends[:-1], ends[1:]


def _ints(data: Bytes, at: Ints, kind: str) -> Ints:
    size = np.dtype(kind).itemsize
    every = np.ndarray((len(data) - size + 1,), kind, buffer=data, strides=(1,))
    return every.take(at, mode="clip").astype(np.int64)


def _texts(data: Bytes, begin: Ints, end: Ints) -> pa.Array:
    if not len(begin) or (begin == end).all():
        return _constant("", len(begin))
    spans = np.stack((begin, end), axis=1).astype(np.int32)
    return text(gather(pa.py_buffer(data), spans, np.zeros(len(begin), np.bool_)))


def _constant(value: str, count: int) -> pa.Array:
    encoded = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(encoded)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(encoded * count)])


def _nullable(column: pa.Array, is_null: Flags) -> pa.Array:
    if not is_null.any():
        return column
    return pa.Array.from_buffers(column.type, len(column), [_bits(~is_null), *column.buffers()[1:]])


def _flags(flags: Flags) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def _bits(flags: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


# -- groups


def _groups(batch: pa.RecordBatch) -> pa.RecordBatch:
    times = pc.divide(batch["timestamp"].cast(pa.int64()), 1000).to_pylist()
    rows = []
    for key, value, at, time, position in zip(
        *(batch[name].to_pylist() for name in ("key", "value")),
        times,
        batch["timestamp"],
        batch["offset"].to_pylist(),
        strict=True,
    ):
        named = group_entry(key, value, at)
        if named is not None:
            group, entry = named
            told = json.dumps(entry, separators=(",", ":"))
            rows.append({"record": GROUP, "group": group, "metadata": told, "written_at": time, "position": position})
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)
