"""The header of a record batch (magic 2), and checks of a batch without decoding its records.

The broker stores and serves a batch as it came. Base offset and leader epoch lie before the part that the CRC covers,
so the broker stamps them in place. Everything else is the producer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from equipoise.wire.crc32c import crc32c
from equipoise.wire.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base offset and length: what stands before the part counted by `batch_length`
CRC_START = 21  # the CRC covers attributes to the end of the batch
MAGIC = 2
DELETE_HORIZON = 0x40  # in the attributes: the base timestamp is the time from which compaction may drop the batch

_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH = Struct(">qi")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LENGTH, _LENGTH_AT = Struct(">i"), 8
_CRC, _CRC_AT = Struct(">I"), 17
MIN_RECORD_SIZE = 7  # length, attributes, two deltas, key and value lengths, header count: a byte each
_MAX_OFFSET = 2**63 - 1


def corrupt(message: str) -> KafkaError:
    """The error that a producer gets for such a batch, and a reader for such bytes."""
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


class Codec(IntEnum):
    """Compression of a batch, the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in the order of the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences wrap to 0 after 2^31-1."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """The compression, by the low bits of the attributes."""
        try:
            return Codec(self.attributes & 0x07)
        except ValueError:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"codec {self.attributes & 0x07} is none of none, gzip, snappy, lz4, zstd (0-4)",
            ) from None

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker has stamped the records."""
        return bool(self.attributes & 0x08)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker of a transaction."""
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon(self) -> int | None:
        """From this time on compaction may drop the batch; None if it has not decided on one (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Reads the header at `pos`. The caller has checked that 61 bytes are there."""
    return BatchHeader._make(_HEADER.unpack_from(buf, pos))


def write_header(buf: bytearray | memoryview, pos: int, header: BatchHeader) -> None:
    """Writes the 61 bytes."""
    _HEADER.pack_into(buf, pos, *header)


def crc_of(buf: Buffer, pos: int, size: int) -> int:
    """Computes the CRC32C that the batch of `size` bytes at `pos` must carry."""
    return crc32c(memoryview(buf)[pos + CRC_START : pos + size])


def write_length_and_crc(batch: bytearray) -> None:
    """Completes the header of the one batch that is in `batch`."""
    _LENGTH.pack_into(batch, _LENGTH_AT, len(batch) - LOG_OVERHEAD)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch, 0, len(batch)))


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch at `pos` its place in the log. Neither field is under the CRC."""
    _BASE_OFFSET.pack_into(buf, pos, base_offset)
    _LEADER_EPOCH.pack_into(buf, pos + LOG_OVERHEAD, leader_epoch)


def iter_headers(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yields each complete batch in `buf[pos:end]` as (position, header); stops before a torn batch.

    It is for our own log and for fetched data, whose last batch the size limit may cut.
    """
    end = len(buf) if end is None else end
    while end - pos >= HEADER_SIZE:
        header = read_header(buf, pos)
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or pos + header.size > end:
            return
        yield pos, header
        pos += header.size


def complete_batches(buf: Buffer, *, verify_crc: bool = True) -> Iterator[tuple[int, BatchHeader]]:
    """Yields each complete batch of fetched data as (position, header), checked; stops before a torn last batch.

    Unlike `iter_headers` it trusts nothing: bytes that cannot be a batch raise KafkaError.
    """
    pos, end = 0, len(buf)
    while end - pos >= HEADER_SIZE:
        header = read_header(buf, pos)
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise corrupt(f"batch_length {header.batch_length} at byte {pos} is shorter than a batch's header")
        if pos + header.size > end:
            return
        check_readable(header)
        if verify_crc:
            check_crc(buf, pos, header)
        yield pos, header
        pos += header.size


def check_readable(header: BatchHeader) -> None:
    """Refuses headers that no reader can use: an unknown format, or offsets that run backwards."""
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if 0 <= header.magic < MAGIC else ErrorCode.CORRUPT_MESSAGE,
            f"record batch magic is {header.magic}; only {MAGIC} (Kafka 0.11 and newer) can be read",
        )
    if header.last_offset_delta < 0 or header.last_offset > _MAX_OFFSET:
        raise corrupt(f"base_offset {header.base_offset} and last_offset_delta {header.last_offset_delta} are no range")
    if header.record_count < 0:
        raise corrupt(f"record_count {header.record_count} is negative")


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Raises CORRUPT_MESSAGE for a wrong CRC."""
    crc = crc_of(buf, pos, header.size)
    if crc != header.crc:
        raise corrupt(f"the batch carries CRC32C {header.crc:08x}, but its bytes give {crc:08x}")


def validate(buf: Buffer, pos: int, end: int) -> BatchHeader:
    """Checks a producer's batch as far as possible without decoding records, and returns its header.

    Raises KafkaError with the code that Kafka answers.
    """
    if end - pos < HEADER_SIZE:
        raise corrupt(f"a record batch needs {HEADER_SIZE} bytes of header, {end - pos} are there")
    header = read_header(buf, pos)
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.INVALID_RECORD if 0 <= header.magic < MAGIC else ErrorCode.CORRUPT_MESSAGE,
            f"record batch magic is {header.magic}; only 2 is accepted: use a client of Kafka 0.11 or newer",
        )
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or header.size > end - pos:
        raise corrupt(f"batch_length {header.batch_length} does not fit the {end - pos} bytes that are there")
    check_crc(buf, pos, header)
    _check_counts(header)
    _check_producer(header)
    return header


def _check_counts(header: BatchHeader) -> None:
    """Refuses counts and deltas that contradict each other: they would corrupt offsets for all readers."""
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"record_count {count} and last_offset_delta {header.last_offset_delta} contradict each other",
        )
    if header.codec is Codec.NONE and count * MIN_RECORD_SIZE > header.size - HEADER_SIZE:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"record_count {count} is more than {header.size - HEADER_SIZE} bytes of records can hold",
        )


def _check_producer(header: BatchHeader) -> None:
    """Refuses what only a broker may write, and a producer id without a sequence."""
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "control batches are written by brokers, not by producers")
    if header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "the timestamp type LogAppendTime is the broker's to set")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"producer_id {header.producer_id} comes with base_sequence {header.base_sequence}: it must be >= 0",
        )
