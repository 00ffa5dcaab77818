"""Columns of commits hold what reading record by record finds, whatever was written."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.spark.history.decode import COMMIT, GROUP, decode
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import (
    ConsumerGroupMetadataKey,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_key,
    encode_value,
)

Pair = tuple[bytes, bytes | None]
COLUMNS = ("group", "topic", "partition", "offset", "leader_epoch", "metadata", "committed_at", "position")

int64s = st.integers(0, 2**53)
texts = st.one_of(st.just(""), st.text(max_size=20), st.text("äb€", min_size=50, max_size=9000))
keys = st.builds(OffsetCommitKey, group=st.text(max_size=6), topic=st.text(max_size=6), partition=st.integers(0, 9))


@st.composite
def commits(draw: st.DrawFn) -> Pair:
    """In every version, and sometimes as a tombstone."""
    key, version = draw(keys), draw(st.integers(-1, 4))
    if version < 0:
        return encode_key(key), None
    fields: dict[str, Any] = {
        "offset": draw(int64s),
        "metadata": draw(texts),
        "commit_timestamp": draw(st.integers(0, 2**42)),
    }
    if version >= 3:
        fields["leader_epoch"] = draw(st.integers(-1, 5))
    if version >= 4 and draw(st.booleans()):
        fields["topic_id"] = bytes(range(16))
    return encode_key(key), struct.pack(">h", version) + OffsetCommitValue(**fields).encode(version)


others = st.sampled_from(
    [
        (encode_key(GroupMetadataKey(group="g")), None),
        (encode_key(ConsumerGroupMetadataKey(group_id="new")), None),
        (b"", b""),
        (b"\0\1", b"\0\4"),
        (b"\0\1\0\7abc", b"\0\1"),
        (struct.pack(">hh", 1, -5) + bytes(9), bytes(40)),
        (b"\x7f\xff", b"of a newer Kafka"),
        (encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), struct.pack(">h", 9) + bytes(60)),
        (encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), b"\0\4\0\0"),
        (encode_key(OffsetCommitKey(group="g", topic="t", partition=0)), b"\0\4" + bytes(12) + b"\xff" * 30),
    ]
)


def batch_of(pairs: list[Pair], first: int = 0) -> pa.RecordBatch:
    """In the middle of a longer one, as Arrow may hand out."""
    padded = [(b"before", b"before"), *pairs, (b"after", None)]
    arrays = [
        pa.array([key for key, _ in padded], pa.binary()),
        pa.array([value for _, value in padded], pa.binary()),
        pa.array(range(first - 1, first + len(pairs) + 1), pa.int64()),
        pa.array(range(len(padded)), pa.timestamp("us", tz="UTC")),
    ]
    whole = pa.RecordBatch.from_arrays(arrays, names=["key", "value", "offset", "timestamp"])
    return whole.slice(1, len(pairs))


def decoded(pairs: list[Pair], record: str, group: str | None = None) -> list[dict[str, Any]]:
    rows = [row for batch in decode([batch_of(pairs)], group) for row in batch.to_pylist()]
    return [row for row in rows if row["record"] == record]


def one_by_one(pairs: list[Pair]) -> list[tuple[Any, ...]]:
    rows = []
    for position, (key, value) in enumerate(pairs):
        try:
            record = decode_record(key, value)
        except ProtocolError:
            continue
        if isinstance(record, CoordinatorRecord) and isinstance(record.key, OffsetCommitKey):
            found = record.value if isinstance(record.value, OffsetCommitValue) else None
            told = (found.offset, found.leader_epoch, found.metadata, found.commit_timestamp) if found else (None,) * 4
            rows.append((record.key.group, record.key.topic, record.key.partition, *told, position))
    return rows


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(commits(), others), max_size=30))
def test_columns_hold_what_record_by_record_finds(pairs: list[Pair]) -> None:
    found = [tuple(row[name] for name in COLUMNS) for row in decoded(pairs, COMMIT)]
    times = [None if at is None else round(at.timestamp() * 1000) for *_, at, _ in found]
    plain = [(*row[:6], at, row[7]) for row, at in zip(found, times, strict=True)]
    assert plain == one_by_one(pairs)


def test_one_group_is_picked_out() -> None:
    value = encode_value(OffsetCommitValue(offset=1, metadata="", commit_timestamp=1))
    keys = [encode_key(OffsetCommitKey(group=name, topic="t", partition=0)) for name in ("a", "b", "a")]
    pairs: list[Pair] = [(key, value) for key in keys]
    pairs += [(encode_key(GroupMetadataKey(group=name)), None) for name in ("a", "b")]
    assert [row["position"] for row in decoded(pairs, COMMIT, "a")] == [0, 2]
    assert [row["group"] for row in decoded(pairs, GROUP, "a")] == ["a"]
    assert decoded(pairs, COMMIT, "c") == []


def test_a_generation_becomes_a_line_of_json() -> None:
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/10.0.0.1",
        rebalance_timeout=300_000,
        session_timeout=45_000,
        subscription=encode_subscription(Subscription(topics=["orders"])),
        assignment=encode_assignment(Assignment(assigned_partitions={"orders": [0, 3]})),
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m-1",
        current_state_timestamp=7,
        members=[member],
    )
    pairs = [
        (encode_key(GroupMetadataKey(group="g")), encode_value(value)),
        (encode_key(GroupMetadataKey(group="g")), None),
    ]
    generation, deleted = (json.loads(row["metadata"]) for row in decoded(pairs, GROUP))
    assert deleted["type"] == "deleted"
    assert (generation["generation"], generation["protocol"], generation["joined_at"]) == (4, "range", 7)
    (told,) = generation["members"]
    assert (told["topics"], told["partitions"]) == (["orders"], [["orders", 0], ["orders", 3]])
    assert (told["client_id"], told["session_timeout_ms"], told["rebalance_timeout_ms"]) == ("c", 45_000, 300_000)


def test_a_group_of_another_protocol_has_members_without_partitions() -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=1, subscription=b"\x09", assignment=b"\xff\xff"
    )
    value = GroupMetadataValue(protocol_type="connect", generation=1, protocol="x", leader="m", members=[member])
    (row,) = decoded([(encode_key(GroupMetadataKey(group="g")), encode_value(value))], GROUP)
    assert json.loads(row["metadata"])["members"][0]["partitions"] == []
