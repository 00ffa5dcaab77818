"""Builds record batches from records, for producers, the coordinator's log and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.wire.errors import UsageError
from equipoise.wire.primitives import write_uvarint
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    Codec,
    write_header,
    write_length_and_crc,
)
from equipoise.wire.records.codecs import compress

NO_TIMESTAMP = -1

_LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
_CONTROL = 0x20
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


class Record(NamedTuple):
    """One record, as a batch has it. In a batch to be built the offsets must rise."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """Builds one batch of `records`, whose offsets ascend from `base_offset` and may leave gaps.

    Only compaction needs `last_offset_delta`: a batch keeps its former range of offsets, even if its last records, or
    all of them, are gone.
    """
    delta = _last_offset_delta(records, base_offset, last_offset_delta)
    base_timestamp, newest = _timestamps(records)
    body = compress(codec, b"".join([_record(r, base_offset, base_timestamp) for r in records]))
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec
        | (_LOG_APPEND_TIME if log_append_time is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (_CONTROL if control else 0),
        last_offset_delta=delta,
        base_timestamp=base_timestamp,
        max_timestamp=newest if log_append_time is None else log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return frame_batch(header, body)


Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]  # timestamp, key, value, headers


def close_batch(rows: Sequence[Row], codec: Codec) -> tuple[BatchHeader, Buffer]:
    """Builds a producer's batch, with offsets from 0 on. `frame_batch` adds producer and sequence numbers.

    This is the hot path of a producer: a row without headers and under 8 KB takes no call.
    """
    times = [row[0] for row in rows]
    base, newest = times[0], max(times)
    check_timestamps(min(times), newest)
    small = _SMALL
    pieces: list[bytes] = []
    for delta, row in enumerate(rows):
        timestamp, key, value, headers = row
        try:
            if headers or value is None or timestamp < base:
                raise IndexError
            head = b"\0" + small[timestamp - base] + small[delta]
            head += (_NULL if key is None else small[len(key)] + key) + small[len(value)]
            pieces += (small[len(head) + len(value) + 1], head, value, b"\0")
        except IndexError:  # not a number of the table
            pieces.append(_record(Record(delta, *row), 0, base))
    last = len(rows) - 1
    header = BatchHeader(0, 0, -1, MAGIC, 0, codec, last, base, newest, -1, -1, -1, last + 1)
    return header, compress(codec, b"".join(pieces))


def build_pairs(
    pairs: Sequence[tuple[bytes, bytes | None]], timestamp: int, producer: tuple[int, int] | None = None
) -> bytearray:
    """Builds one batch of keys and values, with offsets from 0 on and one timestamp, for the coordinator. `producer`:
    id and epoch of the producer to whose transaction they belong."""
    if not pairs:
        raise UsageError("a batch without records covers no offsets: give pairs")
    body = b"".join([_pair(delta, key, value) for delta, (key, value) in enumerate(pairs)])
    last = len(pairs) - 1
    attributes, (producer_id, epoch) = (0, (-1, -1)) if producer is None else (TRANSACTIONAL, producer)
    times = timestamp, timestamp
    return frame_batch(
        BatchHeader(0, 0, -1, MAGIC, 0, attributes, last, *times, producer_id, epoch, -1, last + 1), body
    )


def _pair(delta: int, key: bytes, value: bytes | None) -> bytes:
    try:
        body = b"\0\0" + _SMALL[delta] + _SMALL[len(key)] + key
        body += _NULL if value is None else _SMALL[len(value)] + value
        return _SMALL[len(body) + 1] + body + b"\0"
    except IndexError:  # not a number of the table
        return _record(Record(delta, 0, key, value), 0, 0)


def frame_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """Completes the header with length and CRC, and returns it with the records."""
    batch = bytearray(HEADER_SIZE)
    batch += body
    write_header(batch, 0, header)
    write_length_and_crc(batch)
    return batch


def frame_record(header: BatchHeader, record: Record) -> bytearray:
    """A batch with this header and one record, uncompressed. Its timestamp counts from the header's."""
    return frame_batch(header, _record(record, header.base_offset, header.base_timestamp))


def _last_offset_delta(records: Sequence[Record], base_offset: int, given: int | None) -> int:
    """The delta for the header. Checks that the records' offsets ascend within it."""
    if not records and given is None:
        raise UsageError("a batch without records covers no offsets: give records, or last_offset_delta")
    last = given if given is not None else records[-1].offset - base_offset
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise UsageError(
                f"offset {record.offset} does not follow {previous}: records of a batch ascend from base_offset"
            )
        previous = record.offset
    if not max(0, previous - base_offset) <= last <= _INT32_MAX:
        raise UsageError(f"last_offset_delta {last} does not cover the offsets {base_offset} to {previous} in 32 bits")
    return last


def _timestamps(records: Sequence[Record]) -> tuple[int, int]:
    """The first and the newest timestamp. Checks that all of them, and their differences, fit into 64 bits."""
    if not records:
        return NO_TIMESTAMP, NO_TIMESTAMP
    all_of_them = [record.timestamp for record in records]
    newest = max(all_of_them)
    check_timestamps(min(all_of_them), newest)
    return all_of_them[0], newest


def check_timestamps(oldest: int, newest: int) -> None:
    """UsageError if the timestamps of a batch do not fit into the fields of its header."""
    if oldest < -_INT64_MAX or newest > _INT64_MAX or newest - oldest > _INT64_MAX:
        raise UsageError(f"timestamps from {oldest} to {newest} do not fit into 64 bits: give milliseconds")


def _record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, key, value, headers = record
    pieces = [
        b"\x00",  # attributes: no bit of a record's has a meaning yet
        _varint(timestamp - base_timestamp),
        _varint(offset - base_offset),
        _NULL if key is None else _varint(len(key)),
        key or b"",
        _NULL if value is None else _varint(len(value)),
        value or b"",
        _varint(len(headers)),
    ]
    for name, content in headers:
        pieces += _sized(name.encode())
        pieces += _sized(content)
    body = b"".join(pieces)
    return _varint(len(body)) + body


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    return (_NULL, b"") if data is None else (_varint(len(data)), data)


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    if zigzag < 0x80:
        return _ONE_BYTE[zigzag]
    if zigzag < 0x4000:
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
    return write_uvarint(zigzag)


_NULL = b"\x01"  # the length -1
_ONE_BYTE = tuple(bytes([n]) for n in range(0x80))
_LOW_BYTES = [bytes([n | 0x80]) for n in range(0, 0x80, 2)]
# The numbers from 0 on whose varint has one byte or two: put together, because each of them by `_varint` takes longer.
_SMALL = (*_ONE_BYTE[::2], *[low + high for high in _ONE_BYTE[1:] for low in _LOW_BYTES])
