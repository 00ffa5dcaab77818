"""Random records and random damage: the readers agree with the builder, with each other, and raise nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from equipoise.wire.errors import KafkaError
from equipoise.wire.records.arrow import decode, decode_batches
from equipoise.wire.records.batch import Codec, crc_of, iter_headers, read_header, validate, write_header
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.codecs import compress, decompress
from equipoise.wire.records.read import read_all, read_records
from tests.effort import examples
from tests.wire.test_records_odd import columns_as_records, raw_batch

LIMIT = 1 << 16

# Lengths from 64 need a second byte for their varint, those from 8192 a third.
some_bytes = st.binary(max_size=150) | st.integers(8000, 9000).map(lambda size: b"\x5a" * size)
maybe_bytes = st.none() | some_bytes
timestamps = st.integers(-1, 2**42) | st.integers(-(2**61), 2**61)
header_lists = st.lists(st.tuples(st.text(max_size=70), maybe_bytes), max_size=4).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, base: int = 0) -> list[Record]:
    """At least one record, with offsets that leave gaps."""
    gaps = draw(st.lists(st.integers(1, 3) | st.integers(1, 2**26), min_size=1, max_size=12))
    records, offset = [], base - 1
    for gap in gaps:
        offset += gap
        records.append(Record(offset, draw(timestamps), draw(maybe_bytes), draw(maybe_bytes), draw(header_lists)))
    return records


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """Up to 24 batches, which is more than go one by one, and their records."""
    kinds = draw(st.lists(record_lists(), min_size=1, max_size=4))
    repeats = draw(st.sampled_from([1, 1, 6]))
    out, expected, base = bytearray(), [], draw(st.integers(0, 2**40))
    for records in kinds * repeats:
        moved = [record._replace(offset=base + record.offset) for record in records]
        out += build_batch(moved, base_offset=base, codec=draw(st.sampled_from(Codec)))
        expected += moved
        base = moved[-1].offset + 1
    return bytes(out), expected


@given(batches())
@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_both_readers_give_what_was_built(case: tuple[bytes, list[Record]]) -> None:
    buf, expected = case
    assert read_all(buf) == expected
    assert columns_as_records(buf) == expected


@given(batches(), st.data())
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_clipping_is_filtering(case: tuple[bytes, list[Record]], data: st.DataObject) -> None:
    buf, expected = case
    bounds = st.none() | st.sampled_from([r.offset for r in expected]).map(lambda n: n + 1) | st.integers(0, 2**41)
    start, end = data.draw(bounds), data.draw(bounds)
    wanted = [r for r in expected if (start is None or r.offset >= start) and (end is None or r.offset < end)]
    rows = decode(buf, start=start, end=end)
    rows.validate(full=True)
    assert rows.column("offset").to_pylist() == [r.offset for r in wanted]
    assert rows.column("value").to_pylist() == [r.value for r in wanted]


def outcome(read: Any, buf: bytes | bytearray) -> Any:
    """What a reader gives, or that it refused; any other exception than KafkaError fails the test."""
    try:
        return read(buf)
    except KafkaError:
        return "refused"


SMALL = [
    Record(0, 1000, b"key", b"value", (("h", b"x"), ("", None))),
    Record(1, 990, None, b"y" * 70),
    Record(2, 2**40, b"", None),
]
edits = st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=4)


def damaged(body: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    out = bytearray(body)
    for at, insert, remove in changes:
        at %= len(out) + 1
        out[at : at + remove] = insert
    return bytes(out)


@given(edits, st.integers(1, 4), st.sampled_from([0, 0, 20]))
@settings(max_examples=examples(1500), deadline=None)
def test_damaged_records_are_refused_or_read_alike_by_both(
    changes: list[tuple[int, bytes, int]], count: int, good: int
) -> None:
    """The CRC fits the damaged bytes, as it would from a broken producer; twenty good batches make lanes."""
    body = damaged(bytes(build_batch(SMALL)[61:]), changes)
    buf = raw_batch(body, count, last_offset_delta=2, base_timestamp=1000) + build_batch(SMALL) * good
    read = outcome(read_all, buf)
    assert outcome(columns_as_records, buf) == read
    values = outcome(lambda b: decode(b, headers=False).column("value").to_pylist(), buf)
    assert read == "refused" or values == [r.value for r in read]


@given(edits, st.sampled_from(Codec))
@settings(max_examples=examples(600), deadline=None)
def test_damaged_batches_raise_nothing_but_kafka_errors(changes: list[tuple[int, bytes, int]], codec: Codec) -> None:
    buf = bytearray(damaged(bytes(build_batch(SMALL, codec=codec)), changes))
    outcome(lambda b: [validate(b, 0, len(b))], buf)
    if len(buf) >= 61 and read_header(buf).size == len(buf):
        write_header(buf, 0, read_header(buf)._replace(crc=crc_of(buf, 0, len(buf))))
        outcome(lambda b: [validate(b, 0, len(b))], buf)
    assert outcome(columns_as_records, buf) == outcome(read_all, buf)
    for pos, header in iter_headers(buf):
        outcome(lambda b, pos=pos, header=header: read_records(b, pos, header), buf)


@given(st.binary(max_size=300))
@example(b"\xff" * 200)
@example(bytes(200))
@settings(max_examples=examples(300), deadline=None)
def test_random_bytes_raise_nothing_but_kafka_errors(data: bytes) -> None:
    outcome(lambda b: [validate(b, 0, len(b))], data)
    assert outcome(columns_as_records, data) == outcome(read_all, data)
    for codec in Codec:
        buf = raw_batch(data, 1 + len(data) // 30, attributes=int(codec))
        assert outcome(columns_as_records, buf) == outcome(read_all, buf)


@given(st.binary(max_size=400), edits, st.sampled_from(Codec))
@settings(max_examples=examples(600), deadline=None)
def test_damaged_compression_is_refused_or_within_the_limit(
    data: bytes, changes: list[tuple[int, bytes, int]], codec: Codec
) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, limit=LIMIT) == data
    for junk in (damaged(packed, changes), data):
        try:
            assert len(decompress(codec, junk, limit=LIMIT)) <= LIMIT
        except KafkaError:
            continue


@pytest.mark.parametrize("codec", Codec)
def test_a_bit_flipped_anywhere_is_refused_or_read_alike_by_both(codec: Codec) -> None:
    """Every bit of a small batch's records, with a CRC that fits."""
    good = build_batch(SMALL, codec=codec)
    for bit in range(61 * 8, len(good) * 8):
        buf = bytearray(good)
        buf[bit >> 3] ^= 1 << (bit & 7)
        write_header(buf, 0, read_header(buf)._replace(crc=crc_of(buf, 0, len(buf))))
        assert outcome(columns_as_records, buf) == outcome(read_all, buf)


@given(batches())
@settings(
    max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_views_show_the_same_bytes_as_copies(case: tuple[bytes, list[Record]]) -> None:
    buf, expected = case
    found = list(iter_headers(buf))
    viewed, counts = decode_batches(buf, found, [0] * len(found), views=True)
    copied, _ = decode_batches(buf, found, [0] * len(found))
    viewed.validate(full=True)
    assert sum(counts) == len(expected)
    for name in ("key", "value"):
        assert viewed.column(name).type == pa.binary_view()
        assert viewed.column(name).cast(pa.binary()).equals(copied.column(name))
    assert viewed.column("value").to_pylist() == [record.value for record in expected]
