"""Reads a record batch as Python objects, one per record: for the log, the coordinator and small consumers.

Every byte may be hostile. Bytes that are no record raise KafkaError(CORRUPT_MESSAGE).
"""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    MIN_RECORD_SIZE,
    BatchHeader,
    Buffer,
    Codec,
    check_readable,
    complete_batches,
    corrupt,
)
from equipoise.wire.records.build import Record
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, decompress

_SOME = 1000
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def read_all(buf: Buffer, *, control: bool = False, verify_crc: bool = True) -> list[Record]:
    """Returns the records of all complete batches in `buf`; those of control batches only on request."""
    records: list[Record] = []
    for pos, header in complete_batches(buf, verify_crc=verify_crc):
        if control or not header.is_control:
            records += read_records(buf, pos, header)
    return records


def read_records(buf: Buffer, pos: int, header: BatchHeader, *, limit: int = DECOMPRESSED_LIMIT) -> list[Record]:
    """Returns the records of the batch at `pos`, whose header is already read; at most `limit` bytes of them."""
    records: list[Record] = []
    _read_batch(records, buf, pos, header, limit=limit)
    return records


def read_some(buf: Buffer, pos: int, header: BatchHeader) -> Iterator[list[Record]]:
    """Yields the records of the batch, a few at a time. Raises KafkaError at the first unreadable record."""
    data = _unpacked(buf, pos, header, DECOMPRESSED_LIMIT)
    at, done = 0, 0
    while done < header.record_count:
        records: list[Record] = []
        error = None
        try:
            count = min(_SOME, header.record_count - done)
            at = _read_into(records, data, header, pos=at, done=done, count=count)
        except IndexError:
            error = _bad(done + len(records), header, f"runs past the {len(data)} bytes of the batch")
        except KafkaError as found:
            error = found
        yield records
        if error is not None:
            try:
                raise error
            finally:
                del error  # otherwise it keeps this frame, and the unpacked bytes, until garbage collection
        done += len(records)
    if at != len(data):
        raise corrupt(f"{len(data) - at} bytes are left after the batch's {header.record_count} records")


def read_headers(data: bytes, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """Reads the `count` headers of a record, which fill all of `data`."""
    try:
        headers, end = _headers(data, 0, count)
    except IndexError:
        end = -1
    if end != len(data):
        raise corrupt("the headers of a record do not add up to its length")
    return headers


def _read_batch(records: list[Record], buf: Buffer, pos: int, header: BatchHeader, *, limit: int) -> None:
    data = _unpacked(buf, pos, header, limit)
    try:
        end = _read_into(records, data, header, pos=0, done=0, count=header.record_count)
    except IndexError:
        raise _bad(len(records), header, f"runs past the {len(data)} bytes of the batch") from None
    if end != len(data):
        raise corrupt(f"{len(data) - end} bytes are left after the batch's {header.record_count} records")


def read_pairs(buf: Buffer, pos: int, header: BatchHeader) -> list[tuple[bytes | None, bytes | None]]:
    """Returns only key and value of each record, at a third of the cost: a loader reads millions."""
    data = _unpacked(buf, pos, header, DECOMPRESSED_LIMIT)
    pairs: list[tuple[bytes | None, bytes | None]] = []
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = varint(data, at)
            end = at + length
            at += 1  # attributes
            while data[at] > 0x7F:  # the timestamp
                at += 1
            at += 1
            while data[at] > 0x7F:  # the offset
                at += 1
            key, at = _sized(data, at + 1)
            value, at = _sized(data, at)
            if not at < end <= len(data):
                raise corrupt(f"record {len(pairs)} of {header.record_count} contradicts itself")
            pairs.append((key, value))
            at = end
    except IndexError:
        raise corrupt(f"the {header.record_count} records run past the {len(data)} bytes of the batch") from None
    return pairs


def _unpacked(buf: Buffer, pos: int, header: BatchHeader, limit: int) -> bytes:
    """Returns the bytes of a batch's records, after checking that they can be what the header says."""
    check_readable(header)
    packed = memoryview(buf)[pos + HEADER_SIZE : pos + header.size]
    if len(packed) != header.size - HEADER_SIZE:
        raise corrupt(f"the batch needs {header.size} bytes, {HEADER_SIZE + len(packed)} are there")
    data = bytes(packed) if header.codec is Codec.NONE else decompress(header.codec, packed, limit=limit)
    check_room(header, len(data))
    return data


def check_room(header: BatchHeader, size: int) -> None:
    """Checks, before anything is allocated, that `size` bytes can hold so many records."""
    if header.record_count * MIN_RECORD_SIZE > size:
        raise corrupt(f"record_count {header.record_count} is more than {size} bytes of records can hold")


def _read_into(records: list[Record], data: bytes, header: BatchHeader, *, pos: int, done: int, count: int) -> int:
    """Appends each record, so that a failure can name the record; returns where the last ends.

    Reads `count` records, the first at `pos`, after `done` others.
    """
    base_offset, last_delta = header.base_offset, header.last_offset_delta
    append_time = header.max_timestamp if header.is_log_append_time else None
    for _ in range(count):
        length, pos = varint(data, pos)
        end = pos + length
        timestamp, pos = varint(data, pos + 1)  # 1: the attributes, which have no meaning yet
        timestamp = header.base_timestamp + timestamp if append_time is None else append_time
        delta, pos = varint(data, pos)
        key, pos = _sized(data, pos)
        value, pos = _sized(data, pos)
        headers_count, pos = varint(data, pos)
        headers, pos = _headers(data, pos, headers_count) if headers_count else ((), pos)
        if pos != end:
            raise _bad(
                done + len(records), header, f"is declared {length} bytes long, its fields take {length + pos - end}"
            )
        if not 0 <= delta <= last_delta:
            raise _bad(done + len(records), header, f"has offset delta {delta}, outside the batch's 0 to {last_delta}")
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise _bad(done + len(records), header, f"has timestamp {timestamp}, which needs more than 64 bits")
        records.append(tuple.__new__(Record, (base_offset + delta, timestamp, key, value, headers)))
    return pos


def _headers(data: bytes, pos: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= len(data) - pos:
        raise corrupt(f"a record declares {count} headers")
    headers = []
    for _ in range(count):
        key, pos = _sized(data, pos)
        if key is None:
            raise corrupt("a record's header has no key")
        value, pos = _sized(data, pos)
        # As Java does: a key that is no UTF-8 must not make the record unreadable.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), pos


def _sized(data: bytes, pos: int) -> tuple[bytes | None, int]:
    """Reads length and bytes. A slice may be short; the caller's comparison of ends then fails."""
    length = data[pos]
    if length & 0x81 == 0:  # one byte, not negative: most keys
        end = pos + 1 + (length >> 1)
        return data[pos + 1 : end], end
    length, pos = varint(data, pos)
    if length < 0:
        if length != -1:
            raise corrupt(f"a record's field has length {length}")
        return None, pos
    end = pos + length
    return data[pos:end], end


def varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Reads the zigzag varint at `pos`; returns it and the next position. Almost all have one byte or two."""
    first = data[pos]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), pos + 1
    second = data[pos + 1]
    if second < 0x80:
        zigzag = first & 0x7F | second << 7
        return (zigzag >> 1) ^ -(zigzag & 1), pos + 2
    return long_varint(data, pos)


def long_varint(data: bytes | memoryview, pos: int) -> tuple[int, int]:
    """A signed varint of up to ten bytes, and the position behind it. `varint` reads the short ones itself."""
    zigzag = shift = 0
    while True:
        byte = data[pos]
        zigzag |= (byte & 0x7F) << shift
        pos += 1
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise corrupt("a varint of a record is longer than 10 bytes")
    if zigzag >> 64:
        raise corrupt(f"a varint of a record is {zigzag}: more than 64 bits")
    return (zigzag >> 1) ^ -(zigzag & 1), pos


def _bad(number: int, header: BatchHeader, what: str) -> KafkaError:
    return corrupt(f"record {number} of {header.record_count} {what}")
