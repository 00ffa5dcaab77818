"""Static members of `consumer` groups (KIP-345): they leave for a while, and come back under another member id.

Rule A10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.assignment.epochs import compute_anew
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.holds import refuse
from equipoise.coordinator.consumer.member import NOTHING, STATIC_LEFT_EPOCH, ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import current_record, member_record, member_tombstones, target_record
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard


def check_released(group: ConsumerGroup, holder: ConsumerGroupMember, member_id: str, *, strict: bool) -> None:
    """A static member comes back only if the old one has left, or if one of the two speaks the classic protocol.

    A member that comes with the id it has rejoins in place: an addition. Kafka tells it that it is its own rival,
    which is fatal in clients; one that has lost the answer to its join could only die. Raises KafkaError.
    Rules A3.16 and A10.4. Kafka: GroupMetadataManager.getOrMaybeSubscribeStaticConsumerGroupMember.
    """
    if holder.is_away or holder.classic is not None or (holder.member_id == member_id and not strict):
        return
    raise KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {holder.instance_id} cannot join the group because the instance "
        f"id is owned by {holder.member_id} member.",
    )


def replace_member(
    shard: Shard, changes: Changes, old: ConsumerGroupMember, step: Step, *, member_id: str
) -> ConsumerGroupMember:
    """The successor has what its predecessor had, without a gap, and its target. Old timers fire into nothing.

    Rules A10.3 and A9.2. Kafka: GroupMetadataManager.replaceMember.
    """
    group = changes.group
    group_id, target, presence = group.group_id, group.target_of(old.member_id), group.presence.get(old.member_id)
    new = old._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    refuse(shard, group, old.member_id, step, error=ErrorCode.FENCED_INSTANCE_ID)
    changes.put(*member_tombstones(group_id, old.member_id))
    changes.put(member_record(group_id, new), target_record(group_id, member_id, target), current_record(group_id, new))
    compute_anew(shard, group, step.now)
    silent = 0 if presence is None else step.now - presence.last_seen
    step.note(MemberLeft(group_id, step.now, old.who, Departure.REPLACED, silent_ms=silent))
    return group.members[member_id]


def leave_for_a_while(changes: Changes, member: ConsumerGroupMember) -> None:
    """The member keeps its partitions until it is back or its session ends. Nobody else is disturbed.

    Rule A10.2. Kafka: GroupMetadataManager.consumerGroupStaticMemberGroupLeave.
    """
    away = member._replace(member_epoch=STATIC_LEFT_EPOCH, revoking=NOTHING, assigned=dict.fromkeys(member.assigned, 0))
    changes.put(current_record(changes.group_id, away))
