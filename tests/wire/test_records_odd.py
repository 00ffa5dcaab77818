"""Records that no well-behaved client writes: legal but unusual ones are read, the rest refused, by both readers."""

from __future__ import annotations

import pytest

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.arrow import decode
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, crc_of, write_header
from equipoise.wire.records.build import Record
from equipoise.wire.records.read import read_all

Headers = tuple[tuple[str, bytes | None], ...]


def raw_batch(body: bytes, count: int = 1, **fields: int) -> bytearray:
    """A batch with these bytes as records; everything around them is as it should be."""
    header = BatchHeader(0, 49 + len(body), -1, 2, 0, 0, max(count - 1, 0), 0, 0, -1, -1, -1, count)
    batch = bytearray(HEADER_SIZE) + body
    write_header(batch, 0, header._replace(**fields))
    write_header(batch, 0, header._replace(**fields, crc=crc_of(batch, 0, len(batch))))
    return batch


def columns_as_records(batch: bytes | bytearray) -> list[Record]:
    rows = decode(batch)
    times = rows.column("timestamp").cast("int64").to_pylist()
    return [
        Record(row["offset"], time, row["key"], row["value"], pairs(row["headers"]))
        for row, time in zip(rows.drop_columns("timestamp").to_pylist(), times, strict=True)
    ]


def pairs(headers: list[dict[str, bytes | None]] | None) -> Headers:
    return tuple((str(header["key"]), header["value"]) for header in headers or ())


READERS = pytest.mark.parametrize("read", [read_all, columns_as_records])

PLAIN = b"\x0c\x00\x00\x00\x01\x01\x00"

LEGAL = {
    "every varint longer than needed": (
        b"\x9a\x80\x80\x80\x00\x00\x80\x00\x80\x80\x00\x81\x00\x81\x80\x00\x80\x80\x00"[:6]
        + b"",
        None,
    ),
    "attributes that mean nothing yet": (b"\x0c\xff\x00\x00\x01\x01\x00", Record(0, 0, None, None)),
    "a timestamp delta of 5 bytes": (
        b"\x14\x00\x80\x80\x80\x80\x20\x00\x01\x01\x00",
        Record(0, 2**32, None, None),
    ),
    "a timestamp delta of 10 bytes, the lowest there is": (
        b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00",
        Record(0, -(2**63), None, None),
    ),
    "a key length of 5 bytes": (b"\x18\x00\x00\x00\x84\x80\x80\x80\x00kk\x01\x00"[:14], Record(0, 0, b"kk", None)),
    "null in two bytes": (b"\x0e\x00\x00\x00\x81\x00\x01\x00", Record(0, 0, None, None)),
    "a header key that is no UTF-8": (
        b"\x16\x00\x00\x00\x01\x01\x02\x04k\xff\x02v",
        Record(0, 0, None, None, (("k\ufffd", b"v"),)),
    ),
}
