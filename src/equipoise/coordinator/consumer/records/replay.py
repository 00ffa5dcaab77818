"""Records of a `consumer` group take effect: after a restart, and at the moment they are made. Rules A20 and A21.

`apply` gives back what the record has replaced, and `restore` puts it back if the record could not be written. State
is a function of the last value of each key, so this undo is exact. Logs may be compacted: any record may be the first
of its group or member, a tombstone may come for what is not there, and two members may claim a partition for a while.
"""

from __future__ import annotations

from enum import Enum, auto
from itertools import chain, repeat
from typing import Any, NamedTuple

from equipoise.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from equipoise.coordinator.consumer.member import LEFT_EPOCH, NOTHING, Assigned, ClassicMetadata, ConsumerGroupMember
from equipoise.coordinator.consumer.states import MemberState
from equipoise.wire import offsets_records as wire
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.schema import Message

_NO_EPOCH = -1  # of a target whose metadata has a tombstone
_KNOWN_STATES = frozenset(MemberState)


class Part(Enum):
    """What a record changes."""

    EPOCH = auto()
    OLD_METADATA = auto()
    MEMBER = auto()
    TARGET_EPOCH = auto()
    TARGET = auto()
    TARGETS = auto()  # of all members at once: no record, but many together
    REGEX = auto()


class Replaced(NamedTuple):
    """What was there before a record: the part, its member or regular expression, and its value (None: nothing)."""

    part: Part
    name: str
    value: Any


ConsumerGroupKey = (
    wire.ConsumerGroupMetadataKey
    | wire.ConsumerGroupPartitionMetadataKey
    | wire.ConsumerGroupMemberMetadataKey
    | wire.ConsumerGroupTargetAssignmentMetadataKey
    | wire.ConsumerGroupTargetAssignmentMemberKey
    | wire.ConsumerGroupCurrentMemberAssignmentKey
    | wire.ConsumerGroupRegularExpressionKey
)


def apply(group: ConsumerGroup, record: CoordinatorRecord) -> Replaced:
    """One record of the group takes effect. Rule A20. Kafka: GroupMetadataManager.replay."""
    key, value = record
    match key:
        case wire.ConsumerGroupMetadataKey():
            return _apply_epoch(group, value)
        case wire.ConsumerGroupPartitionMetadataKey():
            before, group.has_old_metadata = group.has_old_metadata, value is not None
            return Replaced(Part.OLD_METADATA, "", before)
        case wire.ConsumerGroupMemberMetadataKey(member_id=member_id):
            return _apply_member(group, member_id, value)
        case wire.ConsumerGroupTargetAssignmentMetadataKey():
            return _apply_target_epoch(group, value)
        case wire.ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
            return _apply_target(group, member_id, value)
        case wire.ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
            return _apply_current(group, member_id, value)
        case wire.ConsumerGroupRegularExpressionKey(regular_expression=regex):
            return _apply_regex(group, regex, value)
        case other:
            raise AssertionError(f"{type(other).__name__} is no record of a consumer group")


def restore(group: ConsumerGroup, replaced: Replaced) -> None:
    """Undoes one `apply`; of several, the last comes first. Rule A21.2."""
    part, name, value = replaced
    match part:
        case Part.EPOCH:
            group.group_epoch, group.metadata_hash = value
        case Part.OLD_METADATA:
            group.has_old_metadata = value
        case Part.MEMBER if value is None:
            group.drop_member(name)
        case Part.MEMBER:
            group.put_member(value)
        case Part.TARGET_EPOCH:
            group.put_target_epoch(*value)
        case Part.TARGET:
            group.put_target(name, value)
        case Part.TARGETS:
            group.put_targets(value)
        case Part.REGEX:
            group.put_regex(name, value)


def _apply_epoch(group: ConsumerGroup, value: Message | None) -> Replaced:
    before = (group.group_epoch, group.metadata_hash)
    if isinstance(value, wire.ConsumerGroupMetadataValue):
        group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
    return Replaced(Part.EPOCH, "", before)


def _apply_member(group: ConsumerGroup, member_id: str, value: Message | None) -> Replaced:
    before = group.members.get(member_id)
    if isinstance(value, wire.ConsumerGroupMemberMetadataValue):
        group.put_member(_with_metadata(before or ConsumerGroupMember(member_id), value))
    elif before is not None:
        group.drop_member(member_id)
    return Replaced(Part.MEMBER, member_id, before)


def _with_metadata(member: ConsumerGroupMember, value: wire.ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=_classic(value.classic_member_metadata),
    )


def _classic(value: wire.ClassicMemberMetadata | None) -> ClassicMetadata | None:
    if value is None:
        return None
    protocols = tuple((one.name, bytes(one.metadata)) for one in value.supported_protocols)
    return ClassicMetadata(value.session_timeout_ms, protocols)


def _apply_target_epoch(group: ConsumerGroup, value: Message | None) -> Replaced:
    before = (group.target_epoch, group.target_timestamp)
    if isinstance(value, wire.ConsumerGroupTargetAssignmentMetadataValue):
        group.put_target_epoch(value.assignment_epoch, value.assignment_timestamp)
    else:
        group.put_target_epoch(_NO_EPOCH, 0)
    return Replaced(Part.TARGET_EPOCH, "", before)


def _apply_target(group: ConsumerGroup, member_id: str, value: Message | None) -> Replaced:
    before = group.targets.get(member_id)
    if isinstance(value, wire.ConsumerGroupTargetAssignmentMemberValue):
        rows = value.topic_partitions
        group.put_target(
            member_id, frozenset(chain.from_iterable(zip(repeat(one.topic_id), one.partitions) for one in rows))
        )
    else:
        group.put_target(member_id, None)
    return Replaced(Part.TARGET, member_id, before)


def _apply_current(group: ConsumerGroup, member_id: str, value: Message | None) -> Replaced:
    before = group.members.get(member_id)
    if isinstance(value, wire.ConsumerGroupCurrentMemberAssignmentValue):
        group.put_member(_with_current(before or ConsumerGroupMember(member_id), value))
    elif before is not None:
        gone = before._replace(
            member_epoch=LEFT_EPOCH,
            previous_member_epoch=LEFT_EPOCH,
            state=MemberState.STABLE,
            assigned=NOTHING,
            revoking=NOTHING,
        )
        group.put_member(gone)
    return Replaced(Part.MEMBER, member_id, before)


def _with_current(
    member: ConsumerGroupMember, value: wire.ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerGroupMember:
    known = value.state in _KNOWN_STATES
    return member._replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_assigned(value.assigned_partitions, value.member_epoch),
        revoking=_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


def _assigned(rows: list[wire.CurrentTopicPartitions], member_epoch: int) -> Assigned:
    """Records of Kafka before 4.3 have no assignment epochs: the member's own is the safe one (KIP-1251)."""
    found: dict[tuple[bytes, int], int] = {}
    for row in rows:
        epochs = row.assignment_epochs or []
        if len(epochs) != len(row.partitions):
            epochs = [max(member_epoch, 0)] * len(row.partitions)
        found.update({(row.topic_id, number): epoch for number, epoch in zip(row.partitions, epochs, strict=True)})
    return found


def _apply_regex(group: ConsumerGroup, regex: str, value: Message | None) -> Replaced:
    before = group.resolved.get(regex)
    if isinstance(value, wire.ConsumerGroupRegularExpressionValue):
        group.put_regex(regex, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp))
    else:
        group.put_regex(regex, None)
    return Replaced(Part.REGEX, regex, before)
