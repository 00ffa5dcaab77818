"""Scans a batch's records in its bytes, one at a time, for callers that need few of millions.

A caller that stops at a record pays only for the records before it. Nothing is allocated by a count that is only
declared. Unchanged records can be copied by their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, Codec, check_readable, corrupt
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, expand
from equipoise.wire.records.read import check_room, varint

_LEAST_ROOM = 32 * 1024 * 1024
_MOST_EXPANSION = 256  # times: lz4 cannot do more, and what is not made to expand stays far below

_LEAST_RECORDS = 1 << 19
_MOST_RECORDS_IN_A_BYTE = 64


def expansion_limit(size: int) -> int:
    """The most bytes that `size` bytes of a peer may expand to: small requests stay small work."""
    return min(DECOMPRESSED_LIMIT, max(_LEAST_ROOM, _MOST_EXPANSION * size))


def record_limit(size: int) -> int:
    """The most records of a batch of `size` bytes that are worth a look: half a second's work, or records of which 64
    fit into a byte."""
    return max(_LEAST_RECORDS, _MOST_RECORDS_IN_A_BYTE * size)


class Scanned(NamedTuple):
    """One record: its begin and end in the batch's bytes, and what the scan reads on the way."""

    begin: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


def unpack(batch: Buffer, header: BatchHeader, *, limit: int = DECOMPRESSED_LIMIT) -> bytes | memoryview:
    """Returns the bytes of the records of the batch at the head of `batch`, if they can be what the header says."""
    check_readable(header)
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    if len(packed) != header.size - HEADER_SIZE:
        raise corrupt(f"the batch needs {header.size} bytes, {HEADER_SIZE + len(packed)} are there")
    data = bytes(packed) if header.codec is Codec.NONE else expand(header.codec, packed, limit=limit)
    check_room(header, len(data))
    return data


def scan(data: bytes | memoryview, header: BatchHeader) -> Iterator[Scanned]:
    """Yields each record in `data`, which `unpack` returned. Raises KafkaError if a record contradicts itself."""
    size, base_offset, last_delta = len(data), header.base_offset, header.last_offset_delta
    base_time, append_time = header.base_timestamp, header.max_timestamp if header.is_log_append_time else None
    new, begin = tuple.__new__, 0
    try:
        for number in range(header.record_count):
            length, at = varint(data, begin)
            end = at + length
            time, at = varint(data, at + 1)  # 1: the attributes, which have no meaning yet
            delta, at = varint(data, at)
            length, at = varint(data, at)
            value_at = at + length if length >= 0 else at
            # What is read lies behind `begin`, and `end` behind that: the scan always moves on.
            if length < -1 or not value_at < end <= size or not 0 <= delta <= last_delta:
                raise corrupt(f"record {number} of {header.record_count} contradicts itself")
            time = base_time + time if append_time is None else append_time
            key = bytes(data[at:value_at]) if length >= 0 else None
            has_value = not data[value_at] & 1  # an odd number is a negative one: null
            yield new(Scanned, (begin, end, base_offset + delta, time, key, has_value))
            begin = end
    except IndexError:
        raise corrupt(f"the {header.record_count} records run past the {size} bytes of the batch") from None
