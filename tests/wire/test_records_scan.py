"""Records one at a time, as they stand in the bytes: the same as the full reader sees, or an error."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Codec, read_header
from equipoise.wire.records.build import Record, build_batch, frame_batch
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, ExpandsTooFarError, compress, expand
from equipoise.wire.records.read import read_records
from equipoise.wire.records.scan import Scanned, expansion_limit, scan, unpack

FIELD = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=2).map(tuple)
TIMES = st.integers(0, 2**60)


def scanned(data: bytes | bytearray, header: BatchHeader | None = None) -> list[Scanned]:
    header = header or read_header(data)
    return list(scan(unpack(data, header), header))


@given(
    rows=st.lists(st.tuples(st.integers(1, 300), TIMES, FIELD, FIELD, HEADERS), min_size=1, max_size=20),
    codec=st.sampled_from(Codec),
)
def test_records_are_those_of_the_full_reader(rows: list[Any], codec: Codec) -> None:
    offset, records = 1000, []
    for gap, *rest in rows:
        offset += gap
        records.append(Record(offset, *rest))
    data = build_batch(records, base_offset=1000, codec=codec)
    expected = [(r.offset, r.timestamp, r.key, r.value is not None) for r in read_records(data, 0, read_header(data))]
    found = scanned(data)
    assert [one[2:] for one in found] == expected
    assert [one.begin for one in found] == [0, *(one.end for one in found[:-1])]


@pytest.mark.parametrize("codec", Codec)
def test_the_bytes_of_some_records_are_a_batch_of_them(codec: Codec) -> None:
    records = [Record(i, 1000 + i, b"k%d" % i, b"v" * i, (("h", b"x"),)) for i in range(50)]
    data = build_batch(records, codec=codec)
    header = read_header(data)
    body = unpack(data, header)
    some = b"".join(body[one.begin : one.end] for one in scan(body, header) if one.offset % 3 == 0)
    fewer = frame_batch(header._replace(record_count=17), compress(codec, some))
    assert read_records(fewer, 0, read_header(fewer)) == records[::3]


@given(junk=st.binary(max_size=60), at=st.integers(0, 60), count=st.integers(0, 5))
def test_bytes_that_are_no_records_give_records_or_an_error_and_nothing_else(junk: bytes, at: int, count: int) -> None:
    data = build_batch([Record(0, 1, b"key", b"value"), Record(1, 1, None, b"x" * 20)])
    data[HEADER_SIZE + at : HEADER_SIZE + at + len(junk)] = junk
    header = read_header(data)._replace(batch_length=len(data) - 12, record_count=count)
    with suppress_corrupt():
        assert len(scanned(data, header)) == count


@contextmanager
def suppress_corrupt() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise


def test_a_batch_cut_short_is_an_error() -> None:
    data = build_batch([Record(0, 1, b"key", b"value")])
    header = read_header(data)
    for size in range(HEADER_SIZE, len(data)):
        with pytest.raises(KafkaError):
            scanned(data[:size], header)


# A record whose length, or whose key's, is negative: it would end where it began, and be read again and again.
STANDING_STILL = {
    "a record of length -1": b"\x01" + bytes(24),
    "a record of length 0": bytes(25),
    "a key of length -5": b"\x14\0\0\0\x09" + bytes(20),
    "a key of length -2^31": b"\x14\0\0\0\xff\xff\xff\xff\x0f" + bytes(16),
    "a record that ends before its key": b"\x04\0\0\0\x02" + bytes(20),
}


@pytest.mark.parametrize("body", STANDING_STILL.values(), ids=STANDING_STILL)
@pytest.mark.parametrize("count", [3, 20_000_000, 2**31 - 1])
def test_no_record_makes_the_scan_stand_still(body: bytes, count: int) -> None:
    header = BatchHeader(0, 0, 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    data = bytes(frame_batch(header, body))
    with pytest.raises(KafkaError):
        list(islice(scan(data[HEADER_SIZE:], header), 4))


def test_a_declared_count_takes_no_memory() -> None:
    header = BatchHeader(0, 0, 0, 2, 0, 0, 2**31 - 2, 0, 0, -1, -1, -1, 2**31 - 1)
    data = frame_batch(header, bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match="more than 1048576 bytes of records can hold"):
            scanned(data)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_whoever_stops_early_pays_for_what_came_before_only() -> None:
    data = build_batch([Record(0, 1, b"first", b"")])
    header = read_header(data)._replace(record_count=2, last_offset_delta=1)
    found = scan(bytes(unpack(data, header._replace(record_count=1))) + b"\xff" * 100, header)
    assert next(found).key == b"first"
    with pytest.raises(KafkaError):
        next(found)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_what_expands_too_far_is_told_from_what_cannot_be_expanded(codec: Codec) -> None:
    packed = compress(codec, b"abc" * 100_000)
    assert len(expand(codec, packed, limit=300_000)) == 300_000
    with pytest.raises(ExpandsTooFarError):
        expand(codec, packed, limit=299_999)
    for bad in (b"\xff" * 20, packed[:-10]):
        with pytest.raises(KafkaError) as raised:
            expand(codec, bad, limit=400_000)
        assert type(raised.value) is KafkaError
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_what_is_small_may_not_expand_to_what_is_large() -> None:
    assert expansion_limit(10_000) == expansion_limit(100_000) == 32 << 20
    assert expansion_limit(1 << 20) == DECOMPRESSED_LIMIT
    assert expansion_limit(500_000) == 256 * 500_000
