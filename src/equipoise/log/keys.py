"""The keys of a batch's records and nothing else of them: what compaction needs of a million records."""

from __future__ import annotations

from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, corrupt
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, decompress
from equipoise.wire.records.read import long_varint

_CODEC_BITS = 0x07


def read_keys(batch: Buffer, header: BatchHeader) -> list[tuple[int, bytes | None]]:
    """(offset, key) of each record. Raises KafkaError if the bytes are no records."""
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    is_packed = header.attributes & _CODEC_BITS
    data = decompress(header.codec, packed, limit=DECOMPRESSED_LIMIT) if is_packed else bytes(packed)
    try:
        return _scan(data, header)
    except IndexError:
        raise corrupt(f"the {header.record_count} records run past the {len(data)} bytes of the batch") from None


def _scan(data: bytes, header: BatchHeader) -> list[tuple[int, bytes | None]]:
    keys: list[tuple[int, bytes | None]] = []
    at, base_offset = 0, header.base_offset
    for _ in range(header.record_count):
        length, at = _varint(data, at)
        end = at + length
        at += 1  # attributes
        while data[at] & 0x80:  # the timestamp
            at += 1
        delta, at = _varint(data, at + 1)
        length, at = _varint(data, at)
        if at + length > end or end > len(data) or not 0 <= delta <= header.last_offset_delta:
            raise corrupt(f"record {len(keys)} of {header.record_count} contradicts itself")
        keys.append((base_offset + delta, data[at : at + length] if length >= 0 else None))
        at = end
    return keys


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The zigzag varint at `at` and where it ends; nearly all take one byte or two."""
    zigzag = data[at]
    if zigzag >= 0x80:
        second = data[at + 1]
        if second >= 0x80:
            return long_varint(data, at)
        zigzag = zigzag & 0x7F | second << 7
        at += 1
    return (zigzag >> 1) ^ -(zigzag & 1), at + 1
