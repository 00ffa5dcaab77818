"""Heartbeat, and the removal of members whose session has expired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group, check_request
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.parked import ANSWERED
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def heartbeat(shard: Shard, request: HeartbeatRequest, caller: Caller, step: Step, *, hold_ms: int) -> None:
    """In CompletingRebalance a heartbeat is fine, in PreparingRebalance it is told to rejoin: alive it is in both.

    A heartbeat that would be answered "all is well" may be held for `hold_ms`, to be answered at once when a
    rebalance begins: an addition. Rules 3.3 and 7.3. Kafka: GroupMetadataManager.classicGroupHeartbeat.
    """
    try:
        group, member = check_request(shard.groups, request)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "Heartbeat")
        step.reply(caller, HeartbeatResponse(error_code=error.code))
        return
    shard.rebalancer.keep_alive(member, step.now)
    if group.state is State.PREPARING_REBALANCE or request.generation_id != group.generation_id:
        step.reply(caller, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    shard.rebalancer.release_heartbeat(group, member, ANSWERED, step)
    if hold_ms > 0 and group.state is State.STABLE:
        group.parked.heartbeats[member.member_id] = caller
        shard.timers.arm(member.hold_timer, step.now + min(hold_ms, member.session_timeout_ms // 3))
    else:
        step.reply(caller, HeartbeatResponse(error_code=ErrorCode.NONE))


def on_session_timer(shard: Shard, group: Group, member_id: str, step: Step) -> None:
    """A member that waits for us cannot speak, so its silence does not count; it is armed again when answered.

    Rule 2.11. Kafka: GroupMetadataManager.expireClassicGroupMemberHeartbeat.
    """
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        shard.rebalancer.complete_after_expiry(group, step)
        return
    member = group.members.get(member_id)
    if member is None or (group.parked.awaits_phase(member_id) and not member.is_new):
        return
    silent = step.now - member.last_seen
    limit = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
    departure = Departure.FIRST_JOIN_EXPIRED if member.is_new else Departure.SESSION_EXPIRED
    shard.rebalancer.remove_member(group, member, departure, step, limit_ms=limit)
    if group.state is State.PREPARING_REBALANCE:
        shard.rebalancer.complete_after_expiry(group, step)
    else:
        cause = Cause(Trigger.SESSION_EXPIRED, member.who, silent_ms=silent, limit_ms=limit)
        shard.rebalancer.after_removal(group, cause, step)
