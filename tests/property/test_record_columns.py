"""Record batches built by columns are what the builder makes record by record, and what the readers read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.wire.errors import UsageError
from equipoise.wire.records.arrow import SCHEMA
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record, build_batch, frame_batch
from equipoise.wire.records.columns import RecordColumns
from equipoise.wire.records.read import read_all
from tests.effort import examples
from tests.property.test_records_property import header_lists, maybe_bytes, timestamps
from tests.wire.test_records_odd import columns_as_records

HEADERS = SCHEMA.field("headers").type
rows_of_records = st.lists(st.tuples(timestamps, maybe_bytes, maybe_bytes, header_lists), min_size=1, max_size=90)
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def columns_of(rows: list[Row], *, with_headers: bool) -> RecordColumns:
    """Of a slice in the middle of longer columns, as Arrow may hand out."""
    padded = [(0, b"before", b"before", (("before", b""),)), *rows, (0, b"after", None, ())]
    _, key, value, headers = zip(*padded, strict=True)
    pairs = pa.array([[{"key": k, "value": v} for k, v in some] or None for some in headers], HEADERS)
    arrays = (pa.array(key, pa.binary()), pa.array(value, pa.binary()), pairs)
    key_, value_, headers_ = (array.slice(1, len(rows)) for array in arrays)
    return RecordColumns(key_, value_, headers_ if with_headers else None)


@given(rows_of_records, st.booleans(), st.data())
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_columns_make_the_batches_that_the_builder_makes(
    rows: list[Row], with_headers: bool, data: st.DataObject
) -> None:
    codec = data.draw(st.sampled_from(Codec))
    order = data.draw(st.permutations(range(len(rows))))[: data.draw(st.integers(1, len(rows)))]
    ends = sorted({len(order), *data.draw(st.lists(st.integers(1, len(order)), max_size=3))})
    columns = columns_of(rows, with_headers=with_headers)
    times = np.array([row[0] for row in rows], np.int64)
    begin = 0
    for end, (header, body) in zip(ends, columns.batches(np.array(order, np.int64), ends, times, codec), strict=True):
        chosen = [rows[number] for number in order[begin:end]]
        records = [Record(n, *row[:3], row[3] if with_headers else ()) for n, row in enumerate(chosen)]
        batch = bytes(frame_batch(header._replace(producer_id=7, producer_epoch=1, base_sequence=begin), body))
        assert batch == build_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=begin)
        assert read_all(batch) == columns_as_records(batch) == records
        if codec is Codec.NONE:
            assert len(body) <= columns.sizes[order[begin:end]].sum()
        begin = end


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 20_000])
def test_many_records_without_keys_of_one_time(count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    columns = RecordColumns(None, pa.array(values, pa.binary()))
    ((header, body),) = columns.batches(np.arange(count), [count], 1234)
    assert bytes(frame_batch(header, body)) == build_batch(
        [Record(number, 1234, None, value) for number, value in enumerate(values)]
    )


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_text_and_large_columns_are_taken_too(kind: pa.DataType) -> None:
    columns = RecordColumns(pa.array(["a", None], kind), pa.array(["ü", ""], kind))
    ((header, body),) = columns.batches(np.arange(2), [2], 5)
    assert read_all(frame_batch(header, body)) == [Record(0, 5, b"a", "ü".encode()), Record(1, 5, None, b"")]


def test_a_header_without_a_key_is_refused() -> None:
    headers = pa.array([[{"key": None, "value": b"x"}]], HEADERS)
    with pytest.raises(UsageError, match="header without a key"):
        RecordColumns(None, pa.array([b"v"]), headers)
