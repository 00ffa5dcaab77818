"""Records that no well-behaved client writes: the legal ones are read, the rest refused, by both readers."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.arrow import decode
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, crc_of, write_header
from equipoise.wire.records.build import Record
from equipoise.wire.records.read import read_all


def raw_batch(body: bytes, count: int = 1, **fields: int) -> bytearray:
    """A batch with these bytes as records; everything around them is as it should be."""
    header = BatchHeader(0, 49 + len(body), -1, 2, 0, 0, max(count - 1, 0), 0, 0, -1, -1, -1, count)
    batch = bytearray(HEADER_SIZE) + body
    write_header(batch, 0, header._replace(**fields))
    write_header(batch, 0, header._replace(**fields, crc=crc_of(batch, 0, len(batch))))
    return batch


def vi(number: int, width: int = 1) -> bytes:
    """A zigzag varint, in more bytes than it needs if `width` says so."""
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F or len(out) < width - 1:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes(out) + bytes([zigzag])


def record(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return vi(len(body)) + body


def columns_as_records(buf: Buffer) -> list[Record]:
    rows = decode(buf)
    times = rows.column("timestamp").cast("int64").to_pylist()
    return [
        Record(r["offset"], t, r["key"], r["value"], tuple((h["key"], h["value"]) for h in r["headers"] or ()))
        for r, t in zip(rows.drop_columns("timestamp").to_pylist(), times, strict=True)
    ]


READERS = pytest.mark.parametrize("read", [read_all, columns_as_records])

ATTRS = ZERO = b"\x00"
NULL = b"\x01"
PLAIN = record(ATTRS, ZERO, ZERO, NULL, NULL, ZERO)

LEGAL = {
    "every varint in five bytes": (
        record(ATTRS, vi(3, 5), vi(0, 5), vi(1, 5), b"k", vi(2, 5), b"vv", vi(0, 5)),
        Record(0, 3, b"k", b"vv"),
    ),
    "every varint in ten bytes": (
        vi(55, 10) + ATTRS + vi(-3, 10) + vi(0, 10) + vi(1, 10) + b"k" + vi(3, 10) + b"vvv" + vi(0, 10),
        Record(0, -3, b"k", b"vvv"),
    ),
    "attributes that mean nothing yet": (record(b"\xff", ZERO, ZERO, NULL, NULL, ZERO), Record(0, 0, None, None)),
    "the lowest timestamp": (record(ATTRS, vi(-(2**63)), ZERO, NULL, NULL, ZERO), Record(0, -(2**63), None, None)),
    "the highest timestamp": (
        record(ATTRS, vi(2**63 - 1), ZERO, NULL, NULL, ZERO),
        Record(0, 2**63 - 1, None, None),
    ),
    "null in two bytes": (record(ATTRS, ZERO, ZERO, vi(-1, 2), vi(-1, 3), ZERO), Record(0, 0, None, None)),
    "a header key that is no UTF-8": (
        record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(2), b"k\xff", vi(1), b"v"),
        Record(0, 0, None, None, (("k\ufffd", b"v"),)),
    ),
    "headers with long varints": (
        record(ATTRS, ZERO, ZERO, NULL, NULL, vi(2, 4), vi(1, 5), b"a", vi(-1, 6), vi(0, 3), vi(1, 7), b"v"),
        Record(0, 0, None, None, (("a", None), ("", b"v"))),
    ),
    "a last header that is null at the very end": (
        record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(0), NULL),
        Record(0, 0, None, None, (("", None),)),
    ),
}

CORRUPT = {
    "no bytes for the record": (b"", {}),
    "bytes after the last record": (PLAIN + b"\x00", {}),
    "bytes after no records": (PLAIN, {"record_count": 0}),
    "fewer records than counted": (PLAIN + bytes(7), {"record_count": 3, "last_offset_delta": 2}),
    "more records counted than bytes can hold": (PLAIN, {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1}),
    "a record shorter than its fields": (vi(5) + PLAIN[1:], {}),
    "a record longer than its fields": (vi(7) + PLAIN[1:] + b"\x00", {}),
    "a record of negative length": (vi(-1) + PLAIN[1:], {}),
    "a record of very negative length": (vi(-(2**40), 6) + PLAIN[1:], {}),
    "a record of endless length": (vi(2**62) + PLAIN[1:], {}),
    "a first record that ends in the second": (vi(13) + PLAIN[1:] + PLAIN, {"record_count": 2, "last_offset_delta": 1}),
    "a key length of -2": (record(ATTRS, ZERO, ZERO, vi(-2), NULL, ZERO), {}),
    "a key beyond the record": (record(ATTRS, ZERO, ZERO, vi(9), NULL, ZERO), {}),
    "a key beyond all bytes": (record(ATTRS, ZERO, ZERO, vi(2**31 - 1), NULL, ZERO), {}),
    "key and value lengths that add up to zero in 64 bits": (
        record(ATTRS, ZERO, ZERO, vi(2**62), vi(2**62), vi(2**62), ZERO),
        {},
    ),
    "a value length of -5": (record(ATTRS, ZERO, ZERO, NULL, vi(-5), ZERO), {}),
    "a value beyond the record": (record(ATTRS, ZERO, ZERO, NULL, vi(1), ZERO), {}),
    "a negative number of headers": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(-1)), {}),
    "a very negative number of headers": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(-(2**50))), {}),
    "headers that are not there": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1)), {}),
    "a billion headers": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(10**9)), {}),
    "a header without key": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), NULL, NULL), {}),
    "a header without value": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(1), b"k"), {}),
    "a header value of length -3": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(1), b"k", vi(-3)), {}),
    "a header value beyond the record": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(1), b"k", vi(4), b"v"), {}),
    "bytes after the headers": (record(ATTRS, ZERO, ZERO, NULL, NULL, vi(1), vi(0), vi(0), ZERO), {}),
    "a negative offset delta": (record(ATTRS, ZERO, vi(-1), NULL, NULL, ZERO), {}),
    "an offset delta beyond the batch's": (record(ATTRS, ZERO, vi(1), NULL, NULL, ZERO), {}),
    "a varint of eleven bytes": (record(ATTRS, vi(0, 11), ZERO, NULL, NULL, ZERO), {}),
    "a varint of 65 bits": (record(ATTRS, b"\xff" * 9 + b"\x02", ZERO, NULL, NULL, ZERO), {}),
    "a varint that never ends": (record(ATTRS, b"\xff" * 30), {}),
    "a timestamp above 64 bits": (record(ATTRS, vi(1), ZERO, NULL, NULL, ZERO), {"base_timestamp": 2**63 - 1}),
    "a timestamp below 64 bits": (record(ATTRS, vi(-1), ZERO, NULL, NULL, ZERO), {"base_timestamp": -(2**63)}),
}


@READERS
@pytest.mark.parametrize("name", LEGAL)
def test_unusual_records_are_read(name: str, read: Any) -> None:
    body, expected = LEGAL[name]
    assert read(raw_batch(body)) == [expected]


@READERS
@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_records_are_refused(name: str, read: Any) -> None:
    body, fields = CORRUPT[name]
    with pytest.raises(KafkaError) as raised:
        read(raw_batch(body, **fields))
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert len(str(raised.value)) > 20


@READERS
@pytest.mark.parametrize("name", CORRUPT)
def test_corrupt_records_among_many_good_batches_are_refused(name: str, read: Any) -> None:
    """Twenty batches are decoded in lockstep, not one by one."""
    body, fields = CORRUPT[name]
    good = raw_batch(PLAIN)
    with pytest.raises(KafkaError) as raised:
        read(good * 10 + raw_batch(body, **fields) + good * 10)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@READERS
def test_log_append_time_hides_whatever_the_delta_is(read: Any) -> None:
    body = record(ATTRS, vi(2**63 - 1), ZERO, NULL, NULL, ZERO)
    batch = raw_batch(body, attributes=0x08, base_timestamp=2**62, max_timestamp=42)
    assert read(batch) == [Record(0, 42, None, None)]


@READERS
def test_a_varint_of_65_bits_is_refused_even_where_its_value_does_not_matter(read: Any) -> None:
    body = record(ATTRS, b"\xff" * 9 + b"\x02", ZERO, NULL, NULL, ZERO)
    with pytest.raises(KafkaError, match="64 bits"):
        read(raw_batch(body, attributes=0x08, max_timestamp=42))


@READERS
def test_a_count_is_doubted_before_anything_is_made_for_it(read: Any) -> None:
    with pytest.raises(KafkaError, match=r"record_count 2147483647 is more than 7 bytes of records can hold"):
        read(raw_batch(PLAIN, 2**31 - 1))


def test_fields_that_leave_their_record_are_seen_without_a_look_at_headers() -> None:
    """The first value reaches into the second record, where a byte reads as a number of headers."""
    first = record(ATTRS, ZERO, ZERO, NULL, vi(3), ZERO)
    second = record(ATTRS, vi(1), vi(1), NULL, NULL, ZERO)
    assert (first + second)[-5] == 2
    with pytest.raises(KafkaError, match="fields of a record do not add up"):
        decode(raw_batch(first + second, 2), headers=False)


@READERS
def test_an_unknown_codec(read: Any) -> None:
    with pytest.raises(KafkaError) as raised:
        read(raw_batch(PLAIN, attributes=6))
    assert raised.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@READERS
def test_random_bytes_as_compressed_records(read: Any) -> None:
    for codec in range(1, 5):
        with pytest.raises(KafkaError) as raised:
            read(raw_batch(b"this was never compressed", attributes=codec))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_message_names_the_record() -> None:
    with pytest.raises(KafkaError, match="record 1 of 2 has offset delta 9, outside the batch's 0 to 1"):
        read_all(raw_batch(PLAIN + record(ATTRS, ZERO, vi(9), NULL, NULL, ZERO), count=2))
    with pytest.raises(KafkaError, match="record 0 of 1 is declared 7 bytes long, its fields take 6"):
        read_all(raw_batch(vi(7) + PLAIN[1:] + b"\x00"))
    with pytest.raises(KafkaError, match="record 1 of 2 runs past the 14 bytes of the batch"):
        read_all(raw_batch(PLAIN + b"\x0c\x00\x00\x02\x01\x12\x00", count=2))
