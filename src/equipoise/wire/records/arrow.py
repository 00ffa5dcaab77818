"""Decodes fetched record batches to Arrow columns, without a Python object per record.

`rows.py` finds the positions of all fields. One gather per column then copies the bytes. Needs the extra
`equipoise[arrow]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import Buffer, complete_batches, corrupt

try:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from equipoise.wire.records.lanes import Bytes, field_starts, lengths
    from equipoise.wire.records.rows import (
        Arena,
        Batches,
        Flags,
        Rows,
        Spans,
        cut,
        read_at_once,
        read_rows,
        read_slices,
    )
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
_INLINE = 12  # bytes of a value that stand in its view; of a longer one the first four stand there
_PREFIX = 4


def decode(
    buf: Buffer,
    *,
    start: int | None = None,
    end: int | None = None,
    headers: bool = True,
    verify_crc: bool = True,
) -> pa.RecordBatch:
    """Returns the records of all complete batches in `buf` with offsets in [start, end), as columns of `SCHEMA`.

    Control batches and a torn last batch are left out. A record without headers has null in `headers`, as in Spark's
    Kafka connector. With `headers=False` there is no such column, and headers are not read. Raises
    KafkaError(CORRUPT_MESSAGE) for bytes that are no records, UsageError if a column could pass 2 GiB.
    """
    batches = [
        (pos, header)
        for pos, header in complete_batches(buf, verify_crc=verify_crc)
        if not header.is_control
        and (start is None or header.last_offset >= start)
        and (end is None or header.base_offset < end)
    ]
    data, rows, _ = read_rows(buf, batches, None if start is None else [start] * len(batches))
    if end is not None and len(rows.offset) and rows.offset.max() >= end:
        rows = cut(rows, rows.offset < end)
    return _columns(data, rows, headers)


def decode_batches(
    buf: Buffer, batches: Batches, first: Sequence[int], arena: Arena | None = None, *, views: bool = False
) -> tuple[pa.RecordBatch, list[int]]:
    """Returns the records of these batches, of each from its `first` offset on, and the number of records of each.

    The caller has checked CRCs, control batches and transactions. Raises TooMuchError if this is more than is decoded
    at once; `decode_slices` decodes it in several steps. `arena`: for compressed records, as their columns are copies.
    `views`: keys and values are no copies, but views of `buf`, or of the bytes that were expanded.
    """
    data, rows, counts = read_at_once(buf, batches, first, None if views else arena)
    return _columns(data, rows, headers=True, views=views), counts.tolist()


def decode_slices(buf: Buffer, batches: Batches, first: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields the records of these batches from offset `first` on, a bounded number at a time; and the bytes held for
    them."""
    for data, rows in read_slices(buf, batches, first):
        columns = _columns(data, rows, headers=True)
        yield columns, columns.nbytes + len(data)


def viewed(schema: pa.Schema) -> pa.Schema:
    """The same with keys and values as views."""
    fields = [field.with_type(pa.binary_view()) if field.type == pa.binary() else field for field in schema]
    return pa.schema(fields)


_VIEWED = viewed(SCHEMA)


def _columns(data: Bytes, rows: Rows, headers: bool, *, views: bool = False) -> pa.RecordBatch:
    schema = _VIEWED if views else SCHEMA
    schema = schema if headers else schema.remove(schema.get_field_index("headers"))
    bytes_ = pa.py_buffer(data)
    column = partial(view, data) if views else gather
    columns = [
        as_column(rows.offset),
        as_column(rows.timestamp).view(schema.field("timestamp").type),
        as_column(rows.timestamp_type),
        column(bytes_, rows.key, rows.no_key),
        column(bytes_, rows.value, rows.no_value),
    ]
    if headers:
        columns.append(gather_headers(data, rows))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def as_column(numbers: NDArray[Any]) -> pa.Array:
    """The same numbers. `pa.array` would first import pandas, if installed: 0.3 s and 60 MB in every process."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def gather(data: pa.Buffer, spans: Spans, null: Flags) -> pa.Array:
    """Copies the bytes of each span. For Arrow, the spans and the gaps between them form a column: take every
    second."""
    n = len(spans)
    if null.all():
        return pa.nulls(n, pa.binary())
    cells = pa.Array.from_buffers(pa.binary(), 2 * n - 1, [None, pa.py_buffer(spans), data])
    column = cells.take(as_column(np.arange(0, 2 * n, 2, dtype=np.int32)))
    return pa.Array.from_buffers(pa.binary(), n, [_valid(null), *column.buffers()[1:]]) if null.any() else column


def view(data: Bytes, buffer: pa.Buffer, spans: Spans, null: Flags) -> pa.Array:
    """The spans as `binary_view`, without a copy: `buffer` is that of `data`. A view has the length, the first four
    bytes, the number of the buffer (0) and the place there. A value of 12 bytes or fewer stands in the view itself."""
    n = len(spans)
    if null.all():
        return pa.nulls(n, pa.binary_view())
    begin, length = spans[:, 0], spans[:, 1] - spans[:, 0]
    views = np.empty((n, 4), np.int32)
    views[:, 0], views[:, 2], views[:, 3] = length, 0, begin
    is_short = length <= _INLINE
    fours = np.ndarray((max(len(data) - _PREFIX + 1, 0),), "=i4", buffer=data, strides=(1,))
    if not is_short.any():
        views[:, 1] = fours[begin]
    else:
        views[~is_short, 1] = fours[begin[~is_short]]
        places = np.arange(_INLINE)
        inline = data.take(begin[is_short, np.newaxis] + places, mode="clip")
        inline[places >= length[is_short, np.newaxis]] = 0
        views.view(np.uint8).reshape(n, 16)[is_short, _PREFIX:] = inline
    valid = _valid(null) if null.any() else None
    return pa.Array.from_buffers(pa.binary_view(), n, [valid, pa.py_buffer(views), buffer])


def _valid(null: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


def gather_headers(data: Bytes, rows: Rows) -> pa.Array:
    """Headers are a chain: key, value, key, value. Each step reads one field of all records that have it."""
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
    keys = gather(pa.py_buffer(data), spans[::2].copy(), length[::2] < 0)
    values = gather(pa.py_buffer(data), spans[1::2].copy(), length[1::2] < 0)
    pairs = pa.StructArray.from_arrays([text(keys), values], names=["key", "value"])
    offsets = pa.py_buffer(np.concatenate(([0], np.cumsum(rows.header_count))).astype(np.int32))
    valid = _valid(rows.header_count == 0)
    return pa.Array.from_buffers(_HEADERS, len(rows.header_count), [valid, offsets], children=[pairs])


def text(keys: pa.Array) -> pa.Array:
    """Keys as text. Bytes that are no UTF-8 become U+FFFD, as Java reads them."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:  # some key is no UTF-8: read as Java does
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
