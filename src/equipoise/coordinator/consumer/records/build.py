"""The records of a `consumer` group, written as Kafka writes them: names, topics and partitions sorted. Rule A20.

Kafka: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from equipoise.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from equipoise.coordinator.consumer.member import Assigned, ClassicMetadata, ConsumerGroupMember
from equipoise.coordinator.metadata import Partitions, TopicPartition
from equipoise.wire import offsets_records as wire
from equipoise.wire.offsets_records import CoordinatorRecord


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Record 3."""
    key = wire.ConsumerGroupMetadataKey(group_id=group_id)
    return CoordinatorRecord(key, wire.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def old_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Record 4, of which only the tombstone is written."""
    return CoordinatorRecord(wire.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Record 5. A member of the new protocol has an explicit null as its classic metadata (rule A20.7)."""
    value = wire.ConsumerGroupMemberMetadataValue(
        **member.metadata(),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member.classic),
    )
    return CoordinatorRecord(wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def _classic(classic: ClassicMetadata | None) -> wire.ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [wire.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return wire.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    """Record 6."""
    key = wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = wire.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return CoordinatorRecord(key, value)


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Record 7."""
    topics = [wire.TargetTopicPartition(topic_id=topic, partitions=rows) for topic, rows in by_topic(target)]
    key = wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, wire.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def current_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Record 8."""
    value = wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.revoking),
    )
    key = wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def _with_epochs(assigned: Assigned) -> list[wire.CurrentTopicPartitions]:
    return [
        wire.CurrentTopicPartitions(
            topic_id=topic, partitions=rows, assignment_epochs=[assigned[topic, number] for number in rows]
        )
        for topic, rows in by_topic(assigned)
    ]


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[bytes, list[int]]]:
    """Partitions as messages and records list them."""
    topics: dict[bytes, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [(topic, sorted(topics[topic])) for topic in sorted(topics)]


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Record 16. Rule A14.7."""
    value = wire.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return CoordinatorRecord(wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


# -- tombstones


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Nobody in the group subscribes to the regular expression any more. Rule A14.8."""
    return CoordinatorRecord(wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member goes: 8, 7, 5. Rule A20.3."""
    return [
        CoordinatorRecord(wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        CoordinatorRecord(wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """A group goes: all 8, all 7, 6, all 5, all 16, 4, 3. Rule A20.4. The 4 is there even if there never was one.

    Kafka: ConsumerGroup.createGroupTombstoneRecords.
    """
    name = group.group_id
    by_member = [member_tombstones(name, member_id) for member_id in group.members]
    for current, _, _ in by_member:
        yield current
    for _, target, _ in by_member:
        yield target
    yield CoordinatorRecord(wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=name), None)
    for _, _, metadata in by_member:
        yield metadata
    for regex in group.resolved:
        yield regex_tombstone(name, regex)
    yield old_metadata_tombstone(name)
    yield CoordinatorRecord(wire.ConsumerGroupMetadataKey(group_id=name), None)
