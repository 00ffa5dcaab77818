"""Building batches and reading them back, against the record code of kafka-python and aiokafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as AiokafkaPyBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import Codec, read_header, stamp, validate
from equipoise.wire.records.build import NO_TIMESTAMP, Record, build_batch
from equipoise.wire.records.read import read_all, read_records

NOW = 1_700_000_000_000
RECORDS = [
    Record(0, NOW, b"key", b"value"),
    Record(1, NOW - 5, None, b"no key, and earlier"),
    Record(2, NOW + 10**10, b"no value", None),
    Record(3, NOW, b"", b"", (("", b""), ("trace", b"\x00\x01"), ("null", None))),
    Record(4, NOW + 1, b"k" * 70, b"v" * 9000, (("ключ", b"h" * 200),)),
    *(Record(n, NOW + n, b"%d" % n, b"x" * n) for n in range(5, 200)),
]


@pytest.mark.parametrize("codec", Codec)
def test_what_is_built_is_read(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)
    header = validate(batch, 0, len(batch))
    assert read_records(batch, 0, header) == RECORDS
    assert read_records(b"..." + batch + b"...", 3, header) == RECORDS
    assert header.max_timestamp == NOW + 10**10
    assert header.base_timestamp == NOW


def test_a_batch_byte_for_byte() -> None:
    batch = build_batch([Record(10, 7, b"k", b"vv", (("h", None),)), Record(12, 5, None, None)], base_offset=10)
    # length 12 (24 as zigzag), attributes, +0 ms, +0, key 1, value 2, one header: key 1, value null
    first = b"\x18\x00\x00\x00\x02k\x04vv\x02\x02h\x01"
    second = b"\x0c\x00\x03\x04\x01\x01\x00"  # -2 ms, +2, null, null, no headers
    assert batch[61:] == first + second
    assert (read_header(batch).last_offset_delta, read_header(batch).record_count) == (2, 2)


def test_the_fields_of_the_header_come_from_the_arguments() -> None:
    batch = build_batch(
        [Record(100, NOW, None, b"v")],
        base_offset=100,
        codec=Codec.ZSTD,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=17,
        leader_epoch=4,
        transactional=True,
        control=True,
    )
    header = read_header(batch)
    assert header.base_offset == header.last_offset == 100
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 17)
    assert header.partition_leader_epoch == 4
    assert (header.is_transactional, header.is_control, header.is_log_append_time) == (True, True, False)


def test_log_append_time_is_every_record_s_time() -> None:
    batch = build_batch(RECORDS, log_append_time=NOW + 77)
    assert read_header(batch).is_log_append_time
    assert read_header(batch).max_timestamp == NOW + 77
    assert {record.timestamp for record in read_all(batch)} == {NOW + 77}


def test_a_compacted_batch_keeps_its_range_of_offsets() -> None:
    kept = [RECORDS[n] for n in (1, 4, 9)]
    header = read_header(batch := build_batch(kept, last_offset_delta=199, codec=Codec.GZIP))
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 199, 3)
    assert read_all(batch) == kept


def test_a_batch_may_lose_all_its_records() -> None:
    for codec in Codec:
        batch = build_batch([], base_offset=50, last_offset_delta=9, codec=codec, producer_id=1)
        header = read_header(batch)
        assert (header.last_offset, header.record_count, header.max_timestamp) == (59, 0, NO_TIMESTAMP)
        assert read_all(batch) == []


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        ([], {}, "without records covers no offsets"),
        ([Record(4, 0, None, None)], {"base_offset": 5}, "offset 4 does not follow 4"),
        ([Record(1, 0, None, None), Record(1, 0, None, None)], {}, "offset 1 does not follow 1"),
        ([Record(9, 0, None, None)], {"last_offset_delta": 8}, "does not cover the offsets 0 to 9"),
        ([Record(2**31, 0, None, None)], {}, "in 32 bits"),
        ([], {"last_offset_delta": -1}, "last_offset_delta -1"),
    ],
)
def test_offsets_that_cannot_be(records: list[Record], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_batch(records, **options)


@pytest.mark.parametrize("timestamps", [[2**63], [-(2**63)], [-(2**62), 2**62, 0]])
def test_timestamps_that_cannot_be(timestamps: list[int]) -> None:
    with pytest.raises(UsageError, match="do not fit into 64 bits"):
        build_batch([Record(n, timestamp, None, None) for n, timestamp in enumerate(timestamps)])


def test_read_all_goes_over_batches_and_skips_control_and_torn_ones() -> None:
    first = build_batch(RECORDS[:3], codec=Codec.SNAPPY)
    marker = build_batch([Record(3, NOW, b"\0\0\0\1", b"\0\0\0\0\0\0")], base_offset=3, control=True)
    last = build_batch([r._replace(offset=4) for r in RECORDS[:1]], base_offset=4)
    whole = first + marker + last
    assert [record.offset for record in read_all(whole)] == [0, 1, 2, 4]
    assert [record.offset for record in read_all(whole, control=True)] == [0, 1, 2, 3, 4]
    for size in range(len(first) + len(marker), len(whole)):
        assert [record.offset for record in read_all(whole[:size])] == [0, 1, 2]
    assert read_all(b"") == []


def test_offsets_follow_the_stamp() -> None:
    batch = build_batch(RECORDS)
    stamp(batch, 0, 5000, 1)
    assert [record.offset for record in read_all(batch)] == list(range(5000, 5000 + len(RECORDS)))


@pytest.mark.parametrize("codec", Codec)
def test_records_cut_at_any_byte_are_corrupt(codec: Codec) -> None:
    """The header counts three records, and the batch's length fits the bytes: only the records are short."""
    batch = build_batch([RECORDS[3], RECORDS[5], RECORDS[6]], codec=codec)
    for size in range(61, len(batch)):
        cut = batch[:size]
        header = read_header(batch)._replace(batch_length=size - 12)
        with pytest.raises(KafkaError) as raised:
            read_records(cut, 0, header)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_is_not_all_there() -> None:
    batch = build_batch(RECORDS)
    with pytest.raises(KafkaError, match=f"needs {len(batch)} bytes, {len(batch) - 1} are there"):
        read_records(batch[:-1], 0, read_header(batch))


def test_a_batch_may_not_expand_beyond_the_limit() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(10**6))], codec=Codec.ZSTD)
    with pytest.raises(KafkaError, match="cannot be expanded to 100000 bytes"):
        read_records(batch, 0, read_header(batch), limit=100_000)
    assert len(read_records(batch, 0, read_header(batch), limit=10**6 + 20)) == 1


def by_others(builder: type, records: Sequence[Record], codec: Codec) -> bytes:
    out = builder(2, int(codec), 0, -1, -1, -1, 1 << 24)
    for record in records:
        accepted = out.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
        assert accepted is not None
    return bytes(out.build())


def as_read_by(reader: type, batch: bytes) -> list[Record]:
    (found,) = [list(b) for b in iter(reader(batch).next_batch, None)]
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple((k, v) for k, v in r.headers)) for r in found]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder, AiokafkaPyBuilder])
def test_batches_of_other_clients_are_read(builder: type, codec: Codec) -> None:
    batch = by_others(builder, RECORDS, codec)
    assert validate(batch, 0, len(batch)).codec is codec
    assert read_all(batch) == RECORDS


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("reader", [KafkaPythonRecords, AiokafkaRecords])
def test_other_clients_read_our_batches(reader: type, codec: Codec) -> None:
    assert as_read_by(reader, bytes(build_batch(RECORDS, codec=codec))) == RECORDS


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder])
def test_uncompressed_batches_are_the_same_bytes_as_those_of_others(builder: type) -> None:
    ours = build_batch(RECORDS)
    theirs = bytearray(by_others(builder, RECORDS, Codec.NONE))
    theirs[12:16] = ours[12:16]  # the leader epoch, which a producer may fill as it likes
    assert ours == theirs
