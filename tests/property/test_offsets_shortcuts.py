"""The short ways for offset commits give what the long ones give: encoding, reading pairs, loading a shard."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.broker.groups.loader import CoordinatorLoader
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.shard import Shard
from equipoise.wire.errors import KafkaError
from equipoise.wire.offsets_records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    decode_usual_value,
    encode_key,
    encode_value,
)
from equipoise.wire.records.batch import HEADER_SIZE, read_header
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_pairs, read_records
from equipoise.wire.schema import ZERO_UUID, Message

NOW = 1_000
names = st.sampled_from(["a", "b", "grün", "long-" * 30])
int64s = st.integers(-(2**63), 2**63 - 1)
keys = st.builds(OffsetCommitKey, group=names, topic=names, partition=st.integers(0, 3))
values = st.builds(
    OffsetCommitValue,
    offset=int64s,
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.sampled_from(["", "", "", "x", "größer"]),
    commit_timestamp=int64s,
    expire_timestamp=st.sampled_from([-1, -1, -1, 5]),
    topic_id=st.sampled_from([ZERO_UUID, bytes(range(16)), b"\x01" * 16]),
)
groups = st.builds(GroupMetadataKey, group=names)
empty_group = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=[])
records = st.one_of(
    st.builds(CoordinatorRecord, keys, values),
    st.builds(CoordinatorRecord, keys, values),
    st.builds(CoordinatorRecord, keys, st.none()),
    st.builds(CoordinatorRecord, groups, st.sampled_from([None, empty_group])),
)


def compiled(message: Message, version: int) -> bytes:
    return struct.pack(">h", version) + message.encode(version)


@given(keys, values)
def test_a_commit_is_encoded_as_its_tables_say(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    assert encode_key(key) == compiled(key, 1)
    assert encode_value(value) == compiled(value, 4 if value.expire_timestamp == -1 else 1)


@given(values)
def test_only_what_can_be_said_shortly_is_read_shortly(value: OffsetCommitValue) -> None:
    is_usual = not value.metadata and value.expire_timestamp == -1 and value.topic_id != ZERO_UUID
    expected = (value.offset, value.leader_epoch, value.commit_timestamp, value.topic_id) if is_usual else None
    assert decode_usual_value(encode_value(value)) == expected


@given(values, st.integers(0, 41), st.integers(1, 255))
def test_a_changed_byte_is_never_read_as_something_else(value: OffsetCommitValue, at: int, change: int) -> None:
    """What is read shortly is what the table reads from the same bytes."""
    data = bytearray(encode_value(value))
    data[at % len(data)] ^= change
    found = decode_usual_value(bytes(data))
    if found is not None:
        record = decode_record(encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), bytes(data))
        assert isinstance(record, CoordinatorRecord)
        assert isinstance(record.value, OffsetCommitValue)
        assert found == (
            record.value.offset,
            record.value.leader_epoch,
            record.value.commit_timestamp,
            record.value.topic_id,
        )
        assert record.value.metadata == ""


def shard() -> Shard:
    return Shard(GroupConfig(), lambda: "id")


@given(st.lists(records, max_size=40))
def test_a_shard_is_loaded_as_if_each_record_were_applied(written: list[CoordinatorRecord]) -> None:
    slow, quick = shard(), shard()
    pairs = [(encode_key(key), None if value is None else encode_value(value)) for key, value in written]
    for key, value in pairs:
        record = decode_record(key, value)
        assert isinstance(record, CoordinatorRecord)
        slow.apply(record, NOW)
    CoordinatorLoader(quick, NOW).take(pairs)
    assert quick.groups.keys() == slow.groups.keys()
    for name in ("a", "b", "grün", "long-" * 30):
        assert dict(quick.offsets.topics(name)) == dict(slow.offsets.topics(name))
        if name in slow.groups:
            assert quick.groups[name].generation_id == slow.groups[name].generation_id


def test_records_of_other_kinds_are_passed_over() -> None:
    loaded = shard()
    CoordinatorLoader(loaded, NOW).take([(struct.pack(">h", 99) + b"share group", b"value"), (b"\0\x63", None)])
    assert not loaded.groups


fields = st.none() | st.binary(max_size=200)


@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=20), st.booleans())
def test_pairs_are_the_keys_and_values_of_the_records(pairs: list[tuple[bytes, bytes]], with_header: bool) -> None:
    headers = (("name", b"content"),) if with_header else ()
    batch = build_batch([Record(n, NOW + n * 1000, key, value, headers) for n, (key, value) in enumerate(pairs)])
    header = read_header(batch)
    assert read_pairs(batch, 0, header) == [(row.key, row.value) for row in read_records(batch, 0, header)] == pairs


@given(st.integers(0, 60), st.integers(1, 255))
def test_damaged_records_are_refused_or_read_within_their_bytes(at: int, change: int) -> None:
    batch = build_batch([Record(n, NOW, b"key", b"value") for n in range(4)])
    batch[HEADER_SIZE + at % (len(batch) - HEADER_SIZE)] ^= change
    with suppress(KafkaError):
        assert len(read_pairs(batch, 0, read_header(batch))) == 4


def test_records_that_end_before_their_count_are_refused() -> None:
    batch = build_batch([Record(n, NOW, b"key", b"value") for n in range(4)])
    header = read_header(batch)
    short = header._replace(batch_length=header.batch_length - 3)
    with pytest.raises(KafkaError):
        read_pairs(batch, 0, short)
