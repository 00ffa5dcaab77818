"""Classic requests to a `consumer` group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. Rule A15.

`Shard` sends them here when the group of that name is a `consumer` group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.classic.leave import identities, leave_response, leave_row
from equipoise.coordinator.classic.replies import join_error, sync_error
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.removal import Leaver, remove_members
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def join_group(shard: Shard, request: JoinGroupRequest, caller: Caller, step: Step) -> None:
    """Classic members are not taken into `consumer` groups yet: the answer of the policy `disabled`. Rule A15.2."""
    step.reply(caller, join_error(caller, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))


def sync_group(shard: Shard, request: SyncGroupRequest, caller: Caller, step: Step) -> None:
    """Only for classic members. Rule A15.13. Kafka: GroupMetadataManager.classicGroupSyncToConsumerGroup."""
    step.reply(caller, sync_error(_refusal(shard, request)))


def heartbeat(shard: Shard, request: HeartbeatRequest, caller: Caller, step: Step) -> None:
    """Only for classic members. Rule A15.14. Kafka: GroupMetadataManager.classicGroupHeartbeatToConsumerGroup."""
    error = _refusal(shard, request)
    step.reply(caller, HeartbeatResponse(error_code=error))


def _refusal(shard: Shard, request: SyncGroupRequest | HeartbeatRequest) -> ErrorCode:
    try:
        shard.consumer_groups[request.group_id].check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_MEMBER_ID


def leave_group(shard: Shard, request: LeaveGroupRequest, caller: Caller, step: Step) -> None:
    """Any member may be taken out so, also one of the new protocol; all in one step.

    Rule A15.17. Kafka: GroupMetadataManager.classicGroupLeaveToConsumerGroup.
    """
    group = shard.consumer_groups[request.group_id]
    changes, leavers, rows = Changes(shard, group.group_id), dict[str, Leaver](), []
    for one in identities(request, caller):
        try:
            leaver = _leaver(group, one)
            leavers.setdefault(leaver.member.member_id, leaver)
            rows.append(leave_row(one, ErrorCode.NONE))
        except KafkaError as error:
            rows.append(leave_row(one, error.code))
    remove_members(shard, changes, list(leavers.values()), step)
    changes.answer(step, caller, leave_response(caller, rows))


def _leaver(group: ConsumerGroup, one: MemberIdentity) -> Leaver:
    """A group.instance.id without a member id is an administrator's (KIP-345)."""
    by_admin = not one.member_id and one.group_instance_id is not None
    member_id = group.static_members.get(one.group_instance_id or "", "") if by_admin else one.member_id
    member = group.check_member(member_id, one.group_instance_id)
    return Leaver(member, Departure.REMOVED if by_admin else Departure.LEFT, said=one.reason)
