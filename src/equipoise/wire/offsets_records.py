"""Records of `__consumer_offsets`: the coordinator's memory of groups and offsets.

A key is an int16 record type and the key's fields. It is never flexible, and its type is the version in its table. A
value is an int16 version and the value's fields. A null value is a tombstone.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class OffsetCommitKey(Message, versions="0-1"):
    """Type 0 is the form of ancient brokers; it is only read."""

    group: str = field("string")
    topic: str = field("string")
    partition: int = field("int32")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = field("int64")
    leader_epoch: int = field("int32", "3+", default=-1)
    metadata: str = field("string")
    commit_timestamp: int = field("int64")
    expire_timestamp: int = field("int64", "1", default=-1)
    topic_id: bytes = field("uuid", "4+", tag=0, default=ZERO_UUID)


class GroupMetadataKey(Message, versions="2"):
    group: str = field("string")


class MemberMetadata(Struct):
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "3+", nullable=True, default=None)
    client_id: str = field("string")
    client_host: str = field("string")
    rebalance_timeout: int = field("int32", "1+", default=-1)
    session_timeout: int = field("int32")
    subscription: bytes = field("bytes")
    assignment: bytes = field("bytes")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = field("string")
    generation: int = field("int32")
    protocol: str | None = field("string", nullable=True)
    leader: str | None = field("string", nullable=True)
    current_state_timestamp: int = field("int64", "2+", default=-1)
    members: list[MemberMetadata] = field([MemberMetadata])


class OfGroup(Struct, shared=True):
    """A key that names a `consumer` group."""

    group_id: str = field("string")


class OfMember(OfGroup, shared=True):
    """A key that names a member of a `consumer` group."""

    member_id: str = field("string")


class ConsumerGroupMetadataKey(OfGroup, Message, versions="3"):
    """The group and its epoch."""


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = field("int32")
    metadata_hash: int = field("int64", tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(OfGroup, Message, versions="4"):
    """The topics of the group, as they were at its epoch."""


class PartitionMetadata(Struct):
    partition: int = field("int32")
    racks: list[str] = field(["string"])


class TopicMetadata(Struct):
    topic_id: bytes = field("uuid")
    topic_name: str = field("string")
    num_partitions: int = field("int32")
    partition_metadata: list[PartitionMetadata] = field([PartitionMetadata], default=[])


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """Written by Kafka 4.0 only; later the hash in ConsumerGroupMetadataValue replaces it."""

    topics: list[TopicMetadata] = field([TopicMetadata])


class ConsumerGroupMemberMetadataKey(OfMember, Message, versions="5"):
    """What the member has said about itself."""


class ClassicProtocol(Struct):
    name: str = field("string")
    metadata: bytes = field("bytes")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field("int32")
    supported_protocols: list[ClassicProtocol] = field([ClassicProtocol])


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """`classic_member_metadata` is None for a member of the new protocol; left out, it is empty as in Kafka."""

    instance_id: str | None = field("string", nullable=True, default=None)
    rack_id: str | None = field("string", nullable=True, default=None)
    client_id: str = field("string")
    client_host: str = field("string")
    subscribed_topic_names: list[str] = field(["string"])
    subscribed_topic_regex: str | None = field("string", nullable=True, default=None)
    rebalance_timeout_ms: int = field("int32", default=-1)
    server_assignor: str | None = field("string", nullable=True, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata,
        nullable=True,
        tag=0,
        default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[]),
    )


class ConsumerGroupTargetAssignmentMetadataKey(OfGroup, Message, versions="6"):
    """The epoch of the group's target."""


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = field("int32")
    assignment_timestamp: int = field("int64", tag=0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(OfMember, Message, versions="7"):
    """The member's part of the target."""


class AssignedPartitions(Struct, shared=True):
    """Partitions of one topic."""

    topic_id: bytes = field("uuid")
    partitions: list[int] = field(["int32"])


class TargetTopicPartition(AssignedPartitions):
    """What the member is to have of a topic."""


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartition] = field([TargetTopicPartition])


class ConsumerGroupCurrentMemberAssignmentKey(OfMember, Message, versions="8"):
    """What the member has, and its epoch."""


class CurrentTopicPartitions(AssignedPartitions):
    """`assignment_epochs`, if not null, is parallel to `partitions`."""

    assignment_epochs: list[int] | None = field(["int32"], nullable=True, tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """`state`: 0 stable, 1 has partitions to revoke, 2 waits for partitions of other members."""

    member_epoch: int = field("int32")
    previous_member_epoch: int = field("int32")
    state: int = field("int8")
    assigned_partitions: list[CurrentTopicPartitions] = field([CurrentTopicPartitions])
    partitions_pending_revocation: list[CurrentTopicPartitions] = field([CurrentTopicPartitions], default=[])


class ConsumerGroupRegularExpressionKey(OfGroup, Message, versions="16"):
    regular_expression: str = field("string")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = field(["string"])
    version: int = field("int64")
    timestamp: int = field("int64")


# OffsetCommitValue as it nearly always is: version, offset, leader epoch, metadata, time, tags, topic id.
_USUAL_VALUE = struct.Struct(">2sqi1sq3s16s")
_VERSION_4, _NO_METADATA, _TOPIC_ID_TAG = b"\0\4", b"\1", b"\1\0\x10"  # one tag: 0, of 16 bytes
_PARTITION = struct.Struct(">i")


class CoordinatorRecord(NamedTuple):
    """A value of None is a tombstone."""

    key: Message
    value: Message | None


class UnknownRecordType(NamedTuple):
    """A record of share or streams groups, or of a newer Kafka. The loader skips it."""

    type: int


_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


def encode_key(key: Message) -> bytes:
    """The key of a record of `__consumer_offsets`, with its version in front."""
    record_type = key.versions.last
    if isinstance(key, OffsetCommitKey):
        return _key_head(record_type, key.group, key.topic) + _PARTITION.pack(key.partition)
    return struct.pack(">h", record_type) + key.encode(record_type)


@lru_cache(maxsize=1024)  # a group commits the same topics again and again
def _key_head(record_type: int, group: str, topic: str) -> bytes:
    return struct.pack(">h", record_type) + OffsetCommitKey(group=group, topic=topic, partition=0).encode(1)[:-4]


def encode_value(value: Message) -> bytes:
    """Encodes in the version that Kafka 4.1 and later write."""
    version = value.versions.last
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp != -1:
            version = 1  # no other version can carry the expiry
        elif not value.metadata and value.topic_id != ZERO_UUID:
            return encode_usual_value(value.offset, value.leader_epoch, value.commit_timestamp, value.topic_id)
    elif isinstance(value, GroupMetadataValue):
        version = 3
    return struct.pack(">h", version) + value.encode(version)


def encode_usual_value(offset: int, leader_epoch: int, at: int, topic_id: bytes) -> bytes:
    """A commit without metadata, for a topic that has an id."""
    return _USUAL_VALUE.pack(_VERSION_4, offset, leader_epoch, _NO_METADATA, at, _TOPIC_ID_TAG, topic_id)


def decode_usual_value(value: bytes) -> tuple[int, int, int, bytes] | None:
    """Offset, leader epoch, time and topic id of a commit without metadata; None for any other bytes."""
    if len(value) != _USUAL_VALUE.size:
        return None
    version, offset, leader_epoch, metadata, at, tags, topic_id = _USUAL_VALUE.unpack(value)
    is_usual = version == _VERSION_4 and metadata == _NO_METADATA and tags == _TOPIC_ID_TAG
    return (offset, leader_epoch, at, topic_id) if is_usual else None


def group_of_commit(key: bytes) -> str | None:
    """The group of a commit, without the rest of its key; None for any other record."""
    if key[:2] not in (b"\0\1", b"\0\0"):
        return None
    end = 4 + int.from_bytes(key[2:4], "big")
    try:
        return key[4:end].decode() if end <= len(key) else None
    except UnicodeDecodeError:
        return None


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord | UnknownRecordType:
    """Raises ProtocolError if the bytes do not follow their table, or the value's version is unknown."""
    record_type = _int16(key, "key")
    if record_type not in _TYPES:
        return UnknownRecordType(record_type)
    key_class, value_class = _TYPES[record_type]
    decoded_key = key_class.decode(key, record_type, 2)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    version = _int16(value, "value")
    if version not in value_class.versions:
        raise ProtocolError(f"{value_class.__name__} v{version}; versions that can be read are {value_class.versions}")
    return CoordinatorRecord(decoded_key, value_class.decode(value, version, 2))


def _int16(buf: bytes, what: str) -> int:
    if len(buf) < 2:
        raise ProtocolError(f"{what} of a __consumer_offsets record has {len(buf)} bytes; its type or version takes 2")
    return int.from_bytes(buf[:2], "big", signed=True)
