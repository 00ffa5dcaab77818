"""Records of `__consumer_offsets`: the vectors of rule 6.5, all versions, faulty bytes."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.wire import offsets_records
from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    CoordinatorRecord,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordType,
    decode_record,
    encode_key,
    encode_value,
)
from equipoise.wire.schema import Message
from tests.property.strategies import sample

TOPIC_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
KEY = OffsetCommitKey(group="g", topic="t", partition=0)
KEY_BYTES = bytes.fromhex("000100016700017400000000")
TIME = 1700000000000


def offset_value(**values: Any) -> OffsetCommitValue:
    usual: dict[str, Any] = {"offset": 42, "leader_epoch": 7, "metadata": "m", "commit_timestamp": TIME}
    return OffsetCommitValue(**(usual | values))


class TestVectors:
    def test_keys(self) -> None:
        assert encode_key(KEY) == KEY_BYTES
        assert encode_key(GroupMetadataKey(group="g")) == bytes.fromhex("0002000167")

    @pytest.mark.parametrize(
        ("value", "data"),
        [
            (
                offset_value(expire_timestamp=1700000600000, leader_epoch=-1),
                "0001000000000000002a00016d0000018bcfe568000000018bcfee8fc0",
            ),
            (
                offset_value(topic_id=TOPIC_ID),
                "0004000000000000002a00000007026d0000018bcfe5680001001000112233445566778899aabbccddeeff",
            ),
            (offset_value(), "0004000000000000002a00000007026d0000018bcfe5680000"),
        ],
    )
    def test_offset_commit_values_as_they_are_written(self, value: OffsetCommitValue, data: str) -> None:
        assert encode_value(value) == bytes.fromhex(data)
        assert decode_record(KEY_BYTES, bytes.fromhex(data)) == CoordinatorRecord(KEY, value)

    def test_an_offset_with_an_expiry_loses_its_epoch(self) -> None:
        data = encode_value(offset_value(expire_timestamp=TIME + 1, leader_epoch=7))
        record = decode_record(KEY_BYTES, data)
        assert record == CoordinatorRecord(KEY, offset_value(expire_timestamp=TIME + 1, leader_epoch=-1))

    @pytest.mark.parametrize(
        ("data", "values"),
        [
            ("0000000000000000002a00016d0000018bcfe56800", {"leader_epoch": -1}),
            ("0002000000000000002a00016d0000018bcfe56800", {"leader_epoch": -1}),
            ("0003000000000000002a0000000700016d0000018bcfe56800", {}),
        ],
    )
    def test_older_offset_commit_values_are_read(self, data: str, values: dict[str, int]) -> None:
        assert decode_record(KEY_BYTES, bytes.fromhex(data)) == CoordinatorRecord(KEY, offset_value(**values))

    def test_a_legacy_key_is_read_as_the_key_of_today(self) -> None:
        value = bytes.fromhex("0000000000000000002a00016d0000018bcfe56800")
        assert decode_record(b"\0\0" + KEY_BYTES[2:], value) == CoordinatorRecord(KEY, offset_value(leader_epoch=-1))

    def test_a_new_empty_group(self) -> None:
        value = GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=TIME, members=[]
        )
        data = bytes.fromhex("0003000000000000ffffffff0000018bcfe5680000000000")
        assert encode_value(value) == data
        assert decode_record(bytes.fromhex("0002000167"), data) == CoordinatorRecord(GroupMetadataKey(group="g"), value)


class TestGroupMetadata:
    @pytest.mark.parametrize(
        ("version", "data"),
        [
            (0, "0001 6d 0001 63 0002 2f68 00000003 00000001 73 00000001 61"),
            (1, "0001 6d 0001 63 0002 2f68 00000004 00000003 00000001 73 00000001 61"),
            (2, "0001 6d 0001 63 0002 2f68 00000004 00000003 00000001 73 00000001 61"),
            (3, "0001 6d 0001 69 0001 63 0002 2f68 00000004 00000003 00000001 73 00000001 61"),
            (4, "02 6d 02 69 02 63 03 2f68 00000004 00000003 02 73 02 61 00"),
        ],
    )
    def test_members_in_each_version(self, version: int, data: str) -> None:
        head = "0001 70 00000009 0001 72 0001 6d" if version < 4 else "02 70 00000009 02 72 02 6d"
        time = "" if version < 2 else f"{TIME:016x}"
        count, tail = ("00000001", "") if version < 4 else ("02", "00")
        record = decode_record(
            bytes.fromhex("0002000167"), bytes.fromhex(f"{version:04x}" + head + time + count + data + tail)
        )
        member = MemberMetadata(
            member_id="m",
            group_instance_id="i" if version >= 3 else None,
            client_id="c",
            client_host="/h",
            rebalance_timeout=4 if version >= 1 else -1,
            session_timeout=3,
            subscription=b"s",
            assignment=b"a",
        )
        assert record == CoordinatorRecord(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="p",
                generation=9,
                protocol="r",
                leader="m",
                current_state_timestamp=TIME if version >= 2 else -1,
                members=[member],
            ),
        )

    def test_version_3_is_written_although_4_can_be_read(self) -> None:
        assert encode_value(sample(GroupMetadataValue, 3))[:2] == b"\0\3"


class TestConsumerGroups:
    def test_group_epoch_and_hash(self) -> None:
        key = ConsumerGroupMetadataKey(group_id="g")
        assert encode_key(key) == bytes.fromhex("0003000167")
        value = ConsumerGroupMetadataValue(epoch=5, metadata_hash=6)
        assert encode_value(value) == bytes.fromhex("0000 00000005 01 00 08 0000000000000006")
        assert encode_value(ConsumerGroupMetadataValue(epoch=5)) == bytes.fromhex("0000 00000005 00")

    def test_a_classic_member_in_the_tagged_section_has_a_presence_byte(self) -> None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=1, supported_protocols=[ClassicProtocol(name="r", metadata=b"d")]
        )
        value = ConsumerGroupMemberMetadataValue(
            client_id="c", client_host="h", subscribed_topic_names=["t"], classic_member_metadata=classic
        )
        head = "0000 00 00 02 63 02 68 02 02 74 00 ffffffff 00"
        assert encode_value(value) == bytes.fromhex(head + "01 00 0c 01 00000001 02 02 72 02 64 00 00")

    def test_a_member_that_is_not_classic_says_so_with_a_zero(self) -> None:
        """Taken from what Kafka 4.3.1 writes: in the tagged section null is 0, not -1, and is not the default."""
        value = ConsumerGroupMemberMetadataValue(
            client_id="c", client_host="h", subscribed_topic_names=[], classic_member_metadata=None
        )
        written = bytes.fromhex("0000 00 00 02 63 02 68 01 00 ffffffff 00 01 00 01 00")
        key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
        assert encode_value(value) == written
        assert decode_record(encode_key(key), written) == CoordinatorRecord(key, value)
        left_out = decode_record(encode_key(key), written[:-4] + b"\0")
        assert isinstance(left_out, CoordinatorRecord)
        assert isinstance(left_out.value, ConsumerGroupMemberMetadataValue)
        empty = ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
        assert left_out.value.classic_member_metadata == empty
        assert encode_value(left_out.value) == written[:-4] + b"\0"

    def test_assignment_epochs_of_a_member(self) -> None:
        one = CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[7], assignment_epochs=[9])
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2, previous_member_epoch=1, state=0, assigned_partitions=[one]
        )
        topic = TOPIC_ID.hex() + "02 00000007" + "01 00 05 02 00000009"
        assert encode_value(value) == bytes.fromhex("0000 00000002 00000001 00 02" + topic + "01 00")


KNOWN = sorted(offsets_records._TYPES.items())


class TestAllTypes:
    def test_types_are_those_of_the_specification(self) -> None:
        assert [number for number, _ in KNOWN] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 16]

    @pytest.mark.parametrize(("number", "classes"), KNOWN[1:])
    def test_what_is_written_is_read(self, number: int, classes: tuple[type[Message], type[Message]]) -> None:
        key_class, value_class = classes
        key = sample(key_class, number)
        value = sample(value_class, 3 if value_class is GroupMetadataValue else value_class.versions.last)
        assert encode_key(key)[:2] == number.to_bytes(2, "big")
        assert decode_record(encode_key(key), encode_value(value)) == CoordinatorRecord(key, value)
        assert decode_record(encode_key(key), None) == CoordinatorRecord(key, None)

    @pytest.mark.parametrize(("number", "classes"), KNOWN[1:])
    def test_cut_at_every_byte(self, number: int, classes: tuple[type[Message], type[Message]]) -> None:
        key_class, value_class = classes
        key = encode_key(sample(key_class, number))
        value = encode_value(sample(value_class, 3 if value_class is GroupMetadataValue else value_class.versions.last))
        for size in range(len(key)):
            with pytest.raises(ProtocolError):
                decode_record(key[:size], None)
        for size in range(len(value)):
            with pytest.raises(ProtocolError):
                decode_record(key, value[:size])

    @pytest.mark.parametrize("number", [-1, 9, 15, 17, 32767])
    def test_an_unknown_type_is_a_value_that_says_so(self, number: int) -> None:
        key = number.to_bytes(2, "big", signed=True) + b"whatever follows"
        assert decode_record(key, b"and its value") == UnknownRecordType(number)
        assert decode_record(key, None) == UnknownRecordType(number)

    @pytest.mark.parametrize("version", [-1, 5])
    def test_an_unknown_version_of_a_value_is_an_error(self, version: int) -> None:
        value = version.to_bytes(2, "big", signed=True) + bytes(30)
        with pytest.raises(ProtocolError, match=f"OffsetCommitValue v{version}; versions that can be read are 0-4"):
            decode_record(KEY_BYTES, value)

    def test_bytes_left_over(self) -> None:
        with pytest.raises(ProtocolError, match=r"OffsetCommitKey v1: .*1 bytes are left over"):
            decode_record(KEY_BYTES + b"\0", None)
