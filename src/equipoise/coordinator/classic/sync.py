"""SyncGroup: the leader sends the assignment, and every member receives its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import ClassicGroupMember, Group, check_request
from equipoise.coordinator.classic.rebalance import note_syncs
from equipoise.coordinator.classic.replies import sync_error, synced
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.parked import ANSWERED, SENT_AGAIN
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKind
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def sync_group(shard: Shard, request: SyncGroupRequest, caller: Caller, step: Step) -> None:
    """A member waits for the leader's assignment, unless it is there.

    Rules 3.1.5, 3.1.9 and 3.1.10. Kafka: GroupMetadataManager.classicGroupSync.
    """
    try:
        group, member = check_request(shard.groups, request)
        _check_phase(group, request)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "SyncGroup")
        step.reply(caller, sync_error(error.code))
        return
    member.last_seen = step.now
    member.lost_at = None
    shard.rebalancer.release_heartbeat(group, member, ANSWERED, step)
    is_first = member.member_id in group.pending_sync
    _drop_pending(shard, group, member)
    if group.state is State.STABLE:
        if is_first:
            _note_late(group, member, step)
        step.reply(caller, synced(group, member))
        return
    shard.rebalancer.release_sync(group, member, SENT_AGAIN, step)
    group.parked.syncs[member.member_id] = caller
    if member.member_id == group.leader and not group.assigning:
        assignments = {row.member_id: row.assignment for row in request.assignments}
        shard.rebalancer.write_assignment(group, assignments, step)


def _check_phase(group: Group, request: SyncGroupRequest) -> None:
    """The protocol must be the group's (KIP-559), and the join phase over. Rules 3.1.9 and 3.1.10.

    Kafka: GroupMetadataManager.validateSyncGroup.
    """
    for said, true in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)):
        if said is not None and true is not None and said != true:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE or request.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _drop_pending(shard: Shard, group: Group, member: ClassicGroupMember) -> None:
    """The last one to ask ends the wait for all. Rule 3.1.11. Kafka: GroupMetadataManager.removePendingSyncMember."""
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.timers.cancel(group.timer(TimerKind.SYNC))


def _note_late(group: Group, member: ClassicGroupMember, step: Step) -> None:
    """The assignment was there before the member asked for it; the last of them ends the story."""
    group.journal.synced(member.member_id, step.now)
    if not group.pending_sync:
        note_syncs(group, step)


def on_sync_timer(shard: Shard, group: Group, step: Step) -> None:
    """Removes members that joined and never asked for their assignment: they would own partitions without reading.

    Static ones too. Rule 3.2. Kafka: GroupMetadataManager.expirePendingSync.
    """
    if not group.pending_sync or not group.is_in(State.COMPLETING_REBALANCE, State.STABLE):
        return
    limit = group.rebalance_timeout_ms
    silent = [member for member in group.members.values() if member.member_id in group.pending_sync]
    for member in silent:
        shard.rebalancer.remove_member(group, member, Departure.SYNC_EXPIRED, step, limit_ms=limit)
    cause = Cause(Trigger.SYNC_EXPIRED, silent[0].who, silent_ms=limit, limit_ms=limit)
    shard.rebalancer.prepare(group, cause, step)
