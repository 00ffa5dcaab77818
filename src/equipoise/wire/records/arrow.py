"""Fetched record batches to Arrow columns, without a Python object per record.

One pass over the batches' headers, one that finds where records begin, one that reads their numbers with
numpy, and one gather per column of bytes. Needs the extra `equipoise[arrow]`.
"""

from __future__ import annotations

from typing import NamedTuple

from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, Codec, complete_batches, corrupt
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, decompress, decompress_into
from equipoise.wire.records.read import check_room

try:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from equipoise.wire.records.lanes import Bytes, Ints, field_starts, lengths, varints
except ImportError as error:
    raise UsageError(f"Arrow columns need numpy and pyarrow ({error}): pip install 'equipoise[arrow]'") from None

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
    ]
)

_CHUNK = 16 * 1024  # rows whose positions and numbers stay in the processor's cache
_COLUMN_LIMIT = 2**31 - 1  # Arrow's binary columns count their bytes in 32 bits
_FIRST_GUESS = 8  # times the compressed size: the room made ready for what it expands to

Batches = list[tuple[int, BatchHeader]]
Flags = NDArray[np.bool_]
Spans = NDArray[np.int32]  # a row's begin and end in the bytes


class _Chains(NamedTuple):
    """What the headers say, an entry for each batch that has records."""

    begin: Ints
    end: Ints
    records: Ints
    base_offset: Ints
    last_offset_delta: Ints
    base_timestamp: Ints
    timestamp_type: Ints


class _Rows(NamedTuple):
    """What the records say, an entry each. Offsets and timestamps are deltas until they are placed."""

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


def decode(
    buf: Buffer,
    *,
    start: int | None = None,
    end: int | None = None,
    headers: bool = True,
    verify_crc: bool = True,
) -> pa.RecordBatch:
    """The records of all complete batches in `buf` with offsets in [start, end), as columns of `SCHEMA`.

    Control batches and a torn last batch are left out. A record without headers has null in `headers`, as in
    Spark's Kafka connector; with `headers=False` there is no such column, and headers are not looked into.
    Raises KafkaError(CORRUPT_MESSAGE) for bytes that are no records, UsageError where a column could pass 2 GiB.
    """
    batches = [
        (pos, header)
        for pos, header in complete_batches(buf, verify_crc=verify_crc)
        if not header.is_control
        and (start is None or header.last_offset >= start)
        and (end is None or header.base_offset < end)
    ]
    schema = SCHEMA if headers else SCHEMA.remove(SCHEMA.get_field_index("headers"))
    data, chains = _join(buf, batches)
    if not len(chains.records):
        return pa.RecordBatch.from_pylist([], schema=schema)
    rows = _clip(_place(_read_rows(data, chains), chains), start, end)
    bytes_ = pa.py_buffer(data)
    columns = [
        pa.array(rows.offset),
        pa.array(rows.timestamp).cast(pa.timestamp("ms", tz="UTC")),
        pa.array(rows.timestamp_type),
        _gather(bytes_, rows.key, rows.no_key),
        _gather(bytes_, rows.value, rows.no_value),
    ]
    if headers:
        columns.append(_headers(data, rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _join(buf: Buffer, batches: Batches) -> tuple[Bytes, _Chains]:
    """The bytes in which all records stand, and where each batch's do: `buf` itself if none is compressed."""
    if any(header.codec is not Codec.NONE for _, header in batches):
        data, spans = _expand(memoryview(buf), batches)
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


def _expand(view: memoryview, batches: Batches) -> tuple[Bytes, list[tuple[int, int]]]:
    """All records one after the other in fresh bytes, decompressed straight to their place."""
    guess = _FIRST_GUESS * sum(header.size for _, header in batches)
    arena, used = np.empty(min(guess, _COLUMN_LIMIT), np.uint8), 0
    spans = []
    for pos, header in batches:
        packed = view[pos + HEADER_SIZE : pos + header.size]
        size = decompress_into(header.codec, packed, arena.data[used : used + DECOMPRESSED_LIMIT])
        if size is None:
            whole = decompress(header.codec, packed, limit=DECOMPRESSED_LIMIT)
            size = len(whole)
            arena = np.concatenate((arena[:used], np.frombuffer(whole, np.uint8), np.empty(used + size, np.uint8)))
        spans.append((used, used + size))
        used += size
        _check_size(used)
    return arena, spans


def _check_size(size: int) -> None:
    if size > _COLUMN_LIMIT:
        raise UsageError(
            f"the batches hold {size} bytes of records or more, an Arrow column at most {_COLUMN_LIMIT}:"
            " decode smaller fetches (fetch.max.bytes, max.partition.fetch.bytes)"
        )


def _read_rows(data: Bytes, chains: _Chains) -> _Rows:
    starts = field_starts(data, chains.begin, chains.records)
    n = len(starts)
    rows = _Rows(
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
        _read_chunk(data, starts[at : at + _CHUNK], _cut(rows, slice(at, at + _CHUNK)))
    if (rows.end[np.cumsum(chains.records) - 1] != chains.end).any():
        raise corrupt("the lengths of a batch's records do not add up to the batch's length")
    return rows


def _read_chunk(data: Bytes, pos: Ints, rows: _Rows) -> None:
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


def _place(rows: _Rows, chains: _Chains) -> _Rows:
    """Adds to the deltas what each batch's header gives as base."""
    last = np.repeat(chains.last_offset_delta, chains.records)
    if ((rows.offset < 0) | (rows.offset > last)).any():
        raise corrupt("a record's offset delta lies outside its batch's range of offsets")
    rows.offset[:] += np.repeat(chains.base_offset, chains.records)
    if chains.timestamp_type.any():
        rows.timestamp[rows.timestamp_type == 1] = 0
    base = np.repeat(chains.base_timestamp, chains.records)
    timestamp = base + rows.timestamp
    if ((timestamp ^ base) & (timestamp ^ rows.timestamp)).min() < 0:  # a sum with a sign that neither had
        raise corrupt("a record's timestamp needs more than 64 bits")
    return rows._replace(timestamp=timestamp)


def _clip(rows: _Rows, start: int | None, end: int | None) -> _Rows:
    keep = np.ones(len(rows.offset), np.bool_)
    if start is not None:
        keep &= rows.offset >= start
    if end is not None:
        keep &= rows.offset < end
    return rows if keep.all() else _cut(rows, keep)


def _cut(rows: _Rows, which: slice | Flags) -> _Rows:
    return _Rows._make(column[which] for column in rows)


def _gather(data: pa.Buffer, spans: Spans, null: Flags) -> pa.Array:
    """The bytes of each span. To Arrow the spans, and the gaps between them, are a column: every second is taken."""
    n = len(spans)
    if not n:
        return pa.array([], pa.binary())
    cells = pa.Array.from_buffers(pa.binary(), 2 * n - 1, [None, pa.py_buffer(spans), data])
    column = cells.take(pa.array(np.arange(0, 2 * n, 2, dtype=np.int32)))
    if not null.any():
        return column
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), n, [valid, *column.buffers()[1:]])


def _headers(data: Bytes, rows: _Rows) -> pa.Array:
    """Headers are a chain too: key, value, key, value. Each step reads one field of all records that have it."""
    some = np.flatnonzero(rows.header_count)
    if not len(some):
        return pa.nulls(len(rows.header_count), _HEADERS)
    padded = np.append(data, np.uint8(0)) if int(rows.end.max()) == len(data) else data
    fields = 2 * rows.header_count[some]
    length, begin = lengths(padded, field_starts(padded, rows.header_begin[some], fields))
    end = begin + np.maximum(length, 0)
    if (end[np.cumsum(fields) - 1] != rows.end[some]).any() or (length[::2] < 0).any():
        raise corrupt("the headers of a record do not add up to its length, or one has no key")
    spans = np.stack((begin, end), axis=1).astype(np.int32)
    keys = _gather(pa.py_buffer(data), spans[::2].copy(), length[::2] < 0)
    values = _gather(pa.py_buffer(data), spans[1::2].copy(), length[1::2] < 0)
    pairs = pa.StructArray.from_arrays([_text(keys), values], names=["key", "value"])
    offsets = np.concatenate(([0], np.cumsum(rows.header_count))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, mask=pa.array(rows.header_count == 0))


def _text(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # some key is no UTF-8: read as Java does
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
