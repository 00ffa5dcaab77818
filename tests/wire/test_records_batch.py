"""The header of a batch: what a producer may send, what a reader accepts, where torn data ends."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    complete_batches,
    crc_of,
    iter_headers,
    read_header,
    stamp,
    validate,
    write_header,
)
from equipoise.wire.records.build import Record, build_batch

RECORDS = [Record(n, 1000 + n, b"key", b"value") for n in range(3)]


def altered(*, seal: bool = True, **fields: int) -> bytearray:
    """A good batch with other header fields, and with a CRC that fits them unless `seal` is off."""
    batch = build_batch(RECORDS)
    write_header(batch, 0, read_header(batch)._replace(**fields))
    if seal:
        write_header(batch, 0, read_header(batch)._replace(crc=crc_of(batch, 0, len(batch))))
    return batch


def test_a_good_batch_is_valid_for_every_codec() -> None:
    for codec in Codec:
        batch = build_batch(RECORDS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=0)
        header = validate(batch, 0, len(batch))
        assert (header.codec, header.size, header.record_count) == (codec, len(batch), 3)


def test_a_batch_is_validated_where_it_stands() -> None:
    batch = build_batch(RECORDS)
    assert validate(b"before" + batch + b"after", 6, 6 + len(batch)).last_offset == 2


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"magic": 0}, ErrorCode.INVALID_RECORD, "magic is 0"),
        ({"magic": 1}, ErrorCode.INVALID_RECORD, "Kafka 0.11 or newer"),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE, "magic is 3"),
        ({"magic": -1}, ErrorCode.CORRUPT_MESSAGE, "magic is -1"),
        ({"batch_length": -1}, ErrorCode.CORRUPT_MESSAGE, "batch_length -1 does not fit"),
        ({"batch_length": 48}, ErrorCode.CORRUPT_MESSAGE, "batch_length 48 does not fit"),
        ({"batch_length": 10_000}, ErrorCode.CORRUPT_MESSAGE, "batch_length 10000 does not fit"),
        ({"batch_length": 2**31 - 1}, ErrorCode.CORRUPT_MESSAGE, "does not fit"),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD, "record_count 0 and last_offset_delta 2"),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD, "contradict each other"),
        ({"record_count": 4}, ErrorCode.INVALID_RECORD, "contradict each other"),
        ({"last_offset_delta": -1}, ErrorCode.INVALID_RECORD, "contradict each other"),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD, "contradict each other"),
        (
            {"record_count": 1000, "last_offset_delta": 999},
            ErrorCode.INVALID_RECORD,
            "record_count 1000 is more than 45 bytes of records can hold",
        ),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "codec 5"),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD, "control batches are written by brokers"),
        ({"attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        ({"producer_id": 7}, ErrorCode.INVALID_RECORD, "producer_id 7 comes with base_sequence -1"),
    ],
    ids=str,
)
def test_what_a_producer_may_not_send(fields: dict[str, int], code: ErrorCode, message: str) -> None:
    # A length that does not fit leaves no place where a CRC could be counted.
    batch = altered(seal="batch_length" not in fields, **fields)
    with pytest.raises(KafkaError, match=message) as raised:
        validate(batch, 0, len(batch))
    assert raised.value.code is code


def test_a_flipped_bit_anywhere_under_the_crc_is_found() -> None:
    good = build_batch(RECORDS)
    for at in range(17, len(good)):
        batch = bytearray(good)
        batch[at] ^= 0x10
        with pytest.raises(KafkaError, match="CRC32C") as raised:
            validate(batch, 0, len(batch))
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_cut_at_any_byte_is_not_valid() -> None:
    batch = build_batch(RECORDS)
    for size in range(len(batch)):
        with pytest.raises(KafkaError) as raised:
            validate(batch[:size], 0, size)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_stamping_leaves_the_crc_alone() -> None:
    batch = build_batch(RECORDS)
    stamp(batch, 0, 2**62, 9)
    header = validate(batch, 0, len(batch))
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (2**62, 9, 2**62 + 2)


def test_the_last_sequence_wraps_to_zero() -> None:
    batch = build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


@pytest.mark.parametrize("hop", [iter_headers, complete_batches])
def test_batches_one_after_the_other_up_to_a_torn_one(hop: Any) -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS, base_offset=0, codec=Codec.LZ4)
    both = first + second
    assert [(pos, header.size) for pos, header in hop(both)] == [(0, len(first)), (len(first), len(second))]
    for size in range(len(first), len(both)):
        assert [pos for pos, _ in hop(both[:size])] == [0]
    for size in range(len(first)):
        assert list(hop(both[:size])) == []


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"magic": 1}, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "magic is 1"),
        ({"magic": 9}, ErrorCode.CORRUPT_MESSAGE, "magic is 9"),
        ({"batch_length": 48}, ErrorCode.CORRUPT_MESSAGE, "shorter than a batch's header"),
        ({"batch_length": -(2**31)}, ErrorCode.CORRUPT_MESSAGE, "shorter than a batch's header"),
        ({"last_offset_delta": -1}, ErrorCode.CORRUPT_MESSAGE, "are no range"),
        ({"base_offset": 2**63 - 1}, ErrorCode.CORRUPT_MESSAGE, "are no range"),
        ({"record_count": -5}, ErrorCode.CORRUPT_MESSAGE, "record_count -5 is negative"),
    ],
    ids=str,
)
def test_what_no_reader_accepts(fields: dict[str, int], code: ErrorCode, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as raised:
        list(complete_batches(altered(seal="batch_length" not in fields, **fields)))
    assert raised.value.code is code


def test_the_crc_is_checked_only_if_wanted() -> None:
    batch = altered(seal=False, producer_id=5)
    with pytest.raises(KafkaError, match="CRC32C"):
        list(complete_batches(batch))
    assert len(list(complete_batches(batch, verify_crc=False))) == 1


def test_the_header_is_61_bytes_in_kafka_s_order() -> None:
    header = BatchHeader(1, 49, 2, 2, 0xDEADBEEF, 0x1B, 3, 4, 5, 6, 7, 8, 9)
    buf = bytearray(HEADER_SIZE)
    write_header(buf, 0, header)
    assert buf == bytes.fromhex(
        "0000000000000001 00000031 00000002 02 deadbeef 001b 00000003"
        "0000000000000004 0000000000000005 0000000000000006 0007 00000008 00000009"
    )
    assert read_header(buf) == header
    assert (header.codec, header.is_log_append_time, header.is_transactional) == (Codec.LZ4, True, True)
