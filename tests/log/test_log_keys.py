"""Keys without the rest of their records: the same as the full reader sees, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_helpers import batch

from equipoise.log.keys import read_keys
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import HEADER_SIZE, Codec, read_header
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_records

FIELD = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=2).map(tuple)
TIMES = st.integers(0, 2**60)


@given(
    rows=st.lists(st.tuples(st.integers(1, 300), TIMES, FIELD, FIELD, HEADERS), min_size=1, max_size=20),
    codec=st.sampled_from(Codec),
)
def test_keys_are_those_of_the_full_reader(rows: list[tuple[int, int, bytes, bytes, tuple]], codec: Codec) -> None:
    offset, records = 1000, []
    for gap, *rest in rows:
        offset += gap
        records.append(Record(offset, *rest))
    data = build_batch(records, base_offset=1000, codec=codec)
    header = read_header(data)
    expected = [(record.offset, record.key) for record in read_records(data, 0, header)]
    assert read_keys(data, header) == expected == [(record.offset, record.key) for record in records]


@given(junk=st.binary(max_size=60), at=st.integers(0, 60), count=st.integers(0, 5))
def test_bytes_that_are_no_records_give_keys_or_an_error_and_nothing_else(junk: bytes, at: int, count: int) -> None:
    data = batch([(b"key", b"value"), (None, b"x" * 20)])
    data[HEADER_SIZE + at : HEADER_SIZE + at + len(junk)] = junk
    header = read_header(data)._replace(batch_length=len(data) - 12, record_count=count)
    with suppress_corrupt():
        assert len(read_keys(data, header)) == count


@contextmanager
def suppress_corrupt() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise


def test_a_batch_cut_short_is_an_error() -> None:
    data = batch([(b"key", b"value")])
    header = read_header(data)
    for size in range(HEADER_SIZE, len(data)):
        with pytest.raises(KafkaError):
            read_keys(data[:size], header)
