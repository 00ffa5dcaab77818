"""SyncGroup: the leader hands in the assignment, every member takes its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group, Member
from equipoise.coordinator.classic.replies import sync_error, synced
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def sync_group(shard: Shard, request: SyncGroupRequest, caller: Caller, now: int, step: Step) -> None:
    group = shard.groups.get(request.group_id)
    try:
        member = _check(group, request)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "SyncGroup", now)
        step.reply(caller, sync_error(error.code))
        return
    assert group is not None
    member.last_seen = now
    shard.rebalancer.release_heartbeat(member, ErrorCode.NONE, step)
    if group.state is State.STABLE:
        _drop_pending(shard, group, member)
        step.reply(caller, synced(group, member))
        return
    _park(shard, group, member, caller, step)
    if member.member_id == group.leader and not group.assigning:
        assignments = {row.member_id: row.assignment for row in request.assignments}
        shard.rebalancer.write_assignment(group, assignments, now, step)


def _check(group: Group | None, request: SyncGroupRequest) -> Member:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    for said, true in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)):
        if said is not None and true is not None and said != true:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _park(shard: Shard, group: Group, member: Member, caller: Caller, step: Step) -> None:
    older, member.awaiting_sync = member.awaiting_sync, caller
    if older is not None:  # a client that reconnected: the newest request is the one that counts
        step.reply(older, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    _drop_pending(shard, group, member)


def _drop_pending(shard: Shard, group: Group, member: Member) -> None:
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        shard.timers.cancel(("sync", group.group_id))


def on_sync_timer(shard: Shard, group: Group, now: int, step: Step) -> None:
    """Members that joined and never asked for their assignment are removed, static ones too."""
    if not group.pending_sync or not group.is_in(State.COMPLETING_REBALANCE, State.STABLE):
        return
    limit = group.rebalance_timeout_ms
    silent = [member for member in group.members.values() if member.member_id in group.pending_sync]
    for member in silent:
        shard.rebalancer.remove_member(group, member, Departure.SYNC_EXPIRED, now, step, limit_ms=limit)
    cause = Cause(Trigger.SYNC_EXPIRED, silent[0].who, silent_ms=limit, limit_ms=limit)
    shard.rebalancer.prepare(group, cause, now, step)
