"""Rule A20: records of `consumer` groups are written and read as Kafka's; replay makes memory, and undo unmakes it."""

from __future__ import annotations

from copy import deepcopy

import pytest

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from equipoise.coordinator.consumer.member import ClassicMetadata, ConsumerGroupMember, short_id
from equipoise.coordinator.consumer.records import build as records
from equipoise.coordinator.consumer.records import replay
from equipoise.coordinator.consumer.states import GroupState, MemberState
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    CoordinatorRecord,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_key,
    encode_value,
)

T = bytes.fromhex("00112233445566778899aabbccddeeff")
TIME = 1_700_000_000_000
MEMBER = ConsumerGroupMember(
    "m",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=frozenset({"t"}),
    rebalance_timeout_ms=5_000,
)


def on_the_wire(record: CoordinatorRecord) -> tuple[str, str]:
    value = b"" if record.value is None else encode_value(record.value)
    return encode_key(record.key).hex(), value.hex()


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (records.epoch_record("g", 2, 5), "0003000167", "0000000000020100080000000000000005"),
        (records.epoch_record("g", 2, 0), "0003000167", "00000000000200"),
        (records.member_record("g", MEMBER), "000500016700016d", "000000000263032f6802027401000013880001000100"),
        (
            records.member_record("g", MEMBER._replace(classic=ClassicMetadata(10_000, (("range", b"\0\0"),)))),
            "000500016700016d",
            "000000000263032f680202740100001388000100110100002710020672616e67650300000000",
        ),
        (records.target_epoch_record("g", 2, TIME), "0006000167", "0000000000020100080000018bcfe56800"),
        (
            records.target_record("g", "m", frozenset({(T, 1), (T, 0)})),
            "000700016700016d",
            "00000200112233445566778899aabbccddeeff0300000000000000010000",
        ),
        (
            records.current_record(
                "g", MEMBER._replace(member_epoch=2, previous_member_epoch=0, assigned={(T, 1): 2, (T, 0): 2})
            ),
            "000800016700016d",
            "00000000000200000000000200112233445566778899aabbccddeeff0300000000000000010100090300000002000000020100",
        ),
        (
            records.regex_record("g", "f.*", ResolvedRegex(frozenset({"foo"}), 9, TIME)),
            "00100001670003662e2a",
            "00000204666f6f00000000000000090000018bcfe5680000",
        ),
    ],
)
def test_records_have_the_bytes_of_the_specification(record: CoordinatorRecord, key: str, value: str) -> None:
    assert on_the_wire(record) == (key, value)


def shard_of(*found: CoordinatorRecord) -> Shard:
    """A shard loaded from records that were on the wire."""
    shard = Shard(GroupConfig(), lambda: "id")
    for key, value in found:
        read = decode_record(encode_key(key), None if value is None else encode_value(value))
        assert isinstance(read, CoordinatorRecord)
        shard.apply(read, 0)
    return shard


SETTLED = MEMBER._replace(
    instance_id="i", member_epoch=2, previous_member_epoch=0, assigned={(T, 0): 2}, server_assignor="range"
)
WHOLE = [
    records.member_record("g", SETTLED),
    records.regex_record("g", "f.*", ResolvedRegex(frozenset({"foo"}), 9, TIME)),
    records.epoch_record("g", 2, 5),
    records.target_record("g", "m", frozenset({(T, 0)})),
    records.target_epoch_record("g", 2, TIME),
    records.current_record("g", SETTLED),
]


def test_a_group_is_loaded_with_its_indexes() -> None:
    group = shard_of(*WHOLE).consumer_groups["g"]
    assert group.members == {"m": SETTLED}
    assert (group.group_epoch, group.metadata_hash, group.target_epoch, group.target_timestamp) == (2, 5, 2, TIME)
    assert (group.static_members, group.owners, group.names) == ({"i": "m"}, {(T, 0): "m"}, {"t": 1})
    assert (group.assignors, group.state) == ({"range": 1}, GroupState.STABLE)


@pytest.mark.parametrize("first", range(len(WHOLE)))
def test_any_record_may_be_the_first_of_its_group(first: int) -> None:
    """Rule A20.1: a compacted log. The group begins at epoch 1 with target epoch 1 (rule A4.2)."""
    group = shard_of(WHOLE[first]).consumer_groups["g"]
    expected = ConsumerGroup("g")
    replay.apply(expected, WHOLE[first])
    assert group == expected
    whole = shard_of(WHOLE[first], *WHOLE).consumer_groups["g"]
    assert whole == shard_of(*WHOLE).consumer_groups["g"]


def test_a_member_and_a_group_go_with_their_tombstones() -> None:
    gone = records.member_tombstones("g", "m")
    group = shard_of(*WHOLE, *gone[:1]).consumer_groups["g"]
    assert (group.members["m"].member_epoch, group.owners) == (-1, {})
    group = shard_of(*WHOLE, *gone).consumer_groups["g"]
    assert (group.members, group.targets, group.static_members, group.names) == ({}, {}, {}, {})
    group = shard_of(*WHOLE).consumer_groups["g"]
    assert shard_of(*WHOLE, *records.group_tombstones(group)).consumer_groups == {}
    assert shard_of(*records.group_tombstones(group)).consumer_groups == {}


def test_the_tombstones_of_a_group_have_kafkas_order() -> None:
    """Rule A20.4: 8, 7, 6, 5, 16, 4, 3."""
    group = shard_of(*WHOLE).consumer_groups["g"]
    assert [record.key.versions.last for record in records.group_tombstones(group)] == [8, 7, 6, 5, 16, 4, 3]


def test_an_old_subscription_record_is_remembered_for_its_tombstone() -> None:
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    old = CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(topics=[]))
    assert shard_of(old).consumer_groups["g"].has_old_metadata
    assert not shard_of(old, CoordinatorRecord(key, None)).consumer_groups["g"].has_old_metadata


def test_assignment_epochs_that_are_missing_are_the_members() -> None:
    """Rule A20: records of Kafka before 4.3; a static member that is away has epoch 0."""
    for member_epoch, expected in ((7, 7), (-2, 0)):
        rows = [CurrentTopicPartitions(topic_id=T, partitions=[0, 1])]
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member_epoch, previous_member_epoch=6, state=0, assigned_partitions=rows
        )
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
        member = shard_of(CoordinatorRecord(key, value)).consumer_groups["g"].members["m"]
        assert member.assigned == {(T, 0): expected, (T, 1): expected}


def test_an_unknown_state_is_read_as_unknown() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=9, assigned_partitions=[]
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    member = shard_of(CoordinatorRecord(key, value)).consumer_groups["g"].members["m"]
    assert member.state is MemberState.UNKNOWN


def test_claims_of_a_compacted_log_overlap_and_the_last_counts() -> None:
    """Rule A9.3: the record that took the partition away from m is gone; its later record must not free it."""
    other = ConsumerGroupMember("n", member_epoch=3, assigned={(T, 0): 3})
    later = SETTLED._replace(member_epoch=4, assigned={(T, 1): 4})
    claims = [records.current_record("g", one) for one in (SETTLED, other, later)]
    assert shard_of(*claims).consumer_groups["g"].owners == {(T, 0): "n", (T, 1): "m"}
    back = [records.current_record("g", one) for one in (SETTLED, other, other._replace(assigned={}), SETTLED)]
    assert shard_of(*back).consumer_groups["g"].owners == {(T, 0): "m"}


def commit_record() -> CoordinatorRecord:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    return CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=0), value)


def classic_record() -> CoordinatorRecord:
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=[])
    return CoordinatorRecord(GroupMetadataKey(group="g"), value)


def test_a_simple_group_gives_way_and_a_classic_one_does_not() -> None:
    """Rules A20.1 and A20.2."""
    shard = shard_of(commit_record(), *WHOLE)
    assert (list(shard.groups), list(shard.consumer_groups)) == ([], ["g"])
    with pytest.raises(ProtocolError, match="classic"):
        shard_of(classic_record(), *WHOLE)
    shard = shard_of(classic_record(), CoordinatorRecord(GroupMetadataKey(group="g"), None), *WHOLE)
    assert (list(shard.groups), list(shard.consumer_groups)) == ([], ["g"])
    shard = shard_of(*WHOLE, classic_record())
    assert (list(shard.groups), list(shard.consumer_groups)) == (["g"], [])
    shard = shard_of(*WHOLE, CoordinatorRecord(GroupMetadataKey(group="g"), None))
    assert (shard.groups, shard.consumer_groups) == ({}, {})


def active(*found: CoordinatorRecord) -> Shard:
    shard = shard_of(*found)
    shard.activate(0)
    return shard


def test_changes_take_effect_at_once_and_a_failed_write_undoes_them() -> None:
    """Rule A21.2: and everything that was built on them fails with the same error."""
    shard = active(*WHOLE)
    before = deepcopy(shard.consumer_groups["g"])
    step = Step(0)
    for member_id in ("a", "b"):
        changes = Changes(shard, "g")
        changes.put(records.member_record("g", ConsumerGroupMember(member_id)), records.epoch_record("g", 3, 1))
        changes.put(*records.member_tombstones("g", "m"), records.target_epoch_record("g", 3, 1))
        changes.write(step, None)
    first, second = step.writes
    assert set(shard.consumer_groups["g"].members) == {"a", "b"}
    shard.written(first, ErrorCode.NOT_ENOUGH_REPLICAS, 1)
    assert shard.consumer_groups["g"] == before
    shard.written(second, ErrorCode.NONE, 1)
    assert shard.consumer_groups["g"] == before
    assert (list(shard.unwritten), shard.unwritten_groups, shard.voided) == ([], {}, {})


def test_a_group_that_could_not_be_written_never_was() -> None:
    shard, step = active(commit_record()), Step(0)
    simple = shard.groups["g"]
    changes = Changes(shard, "g")
    changes.put(*WHOLE)
    changes.write(step, None)
    assert (list(shard.groups), list(shard.consumer_groups)) == ([], ["g"])
    shard.written(step.writes[0], ErrorCode.NOT_ENOUGH_REPLICAS, 1)
    assert (shard.groups, shard.consumer_groups) == ({"g": simple}, {})


def test_changes_are_rolled_back_when_the_input_is_refused() -> None:
    shard = active(*WHOLE)
    before = deepcopy(shard.consumer_groups["g"])
    changes = Changes(shard, "g")
    changes.put(*records.group_tombstones(before))
    assert shard.consumer_groups == {}
    changes.roll_back()
    assert shard.consumer_groups == {"g": before}


def test_what_was_durable_stays_when_a_later_write_fails() -> None:
    shard, step = active(*WHOLE), Step(0)
    for epoch in (3, 4):
        changes = Changes(shard, "g")
        changes.put(records.epoch_record("g", epoch, epoch))
        changes.write(step, None)
    shard.written(step.writes[0], ErrorCode.NONE, 1)
    shard.written(step.writes[1], ErrorCode.KAFKA_STORAGE_ERROR, 1)
    assert shard.consumer_groups["g"].group_epoch == 3


def test_ids_that_are_made_here_are_uuids_in_22_characters() -> None:
    """Rules A3.5 and A15.5."""
    assert short_id("00112233-4455-4677-8899-aabbccddeeff") == "ABEiM0RVRneImaq7zN3u_w"
    assert short_id("f8000000-0000-4000-8000-000000000000") == "_AAAAAAAQACAAAAAAAAAAA"
    assert short_id("id-1") == "id-1"
