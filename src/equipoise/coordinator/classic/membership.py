"""Heartbeat and LeaveGroup, and what happens when a member is silent for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group, Member
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.reasons import Cause, Departure, Trigger, Who
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_BATCHED_FROM = 3


# -- Heartbeat


def heartbeat(shard: Shard, request: HeartbeatRequest, caller: Caller, hold_ms: int, now: int, step: Step) -> None:
    """In CompletingRebalance a heartbeat is fine, in PreparingRebalance it is told to rejoin: alive it is in both.

    A heartbeat that would be answered "all is well" may be held for `hold_ms`, to be answered at once when a
    rebalance begins.
    """
    group = shard.groups.get(request.group_id)
    try:
        member = _check_heartbeat(group, request)
    except KafkaError as error:
        who = caller.who(request.member_id, request.group_instance_id)
        step.note_fenced(error.code, request.group_id, who, "Heartbeat", now)
        step.reply(caller, HeartbeatResponse(error_code=error.code))
        return
    assert group is not None
    shard.rebalancer.keep_alive(member, now)
    if group.state is State.PREPARING_REBALANCE:
        step.reply(caller, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    shard.rebalancer.release_heartbeat(member, ErrorCode.NONE, step)
    if hold_ms > 0 and group.state is State.STABLE:
        member.held_heartbeat = caller
        shard.timers.arm(("hold", *member.timer[1:]), now + min(hold_ms, member.session_timeout_ms // 3))
    else:
        step.reply(caller, HeartbeatResponse(error_code=ErrorCode.NONE))


def _check_heartbeat(group: Group | None, request: HeartbeatRequest) -> Member:
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    return member


# -- silence


def on_session_timer(shard: Shard, group: Group, member_id: str, now: int, step: Step) -> None:
    """A member that waits for us cannot speak, so its silence does not count; it is armed again when answered."""
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        _complete_after_expiry(shard, group, now, step)
        return
    member = group.members.get(member_id)
    if member is None or (member.is_waiting and not member.is_new):
        return
    silent = now - member.last_seen
    limit = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
    departure = Departure.FIRST_JOIN_EXPIRED if member.is_new else Departure.SESSION_EXPIRED
    shard.rebalancer.remove_member(group, member, departure, now, step, limit_ms=limit)
    if group.state is State.PREPARING_REBALANCE:
        _complete_after_expiry(shard, group, now, step)
    else:
        cause = Cause(Trigger.SESSION_EXPIRED, member.who, silent_ms=silent, limit_ms=limit)
        shard.rebalancer.after_removal(group, cause, now, step)


def _complete_after_expiry(shard: Shard, group: Group, now: int, step: Step) -> None:
    """The one thing that ends the initial delay early on Kafka too."""
    if group.in_initial_phase and group.has_all_joined:
        shard.rebalancer.complete_join(group, now, step)
    else:
        shard.rebalancer.maybe_complete_join(group, now, step)


# -- LeaveGroup


def leave_group(shard: Shard, request: LeaveGroupRequest, caller: Caller, now: int, step: Step) -> None:
    members = request.members if caller.version >= _BATCHED_FROM else [MemberIdentity(member_id=request.member_id)]
    group = shard.groups.get(request.group_id)
    if group is None:
        rows = [_row(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in members]
        step.reply(caller, _response(caller, rows))
        return
    rows, first = [], None
    for one in members:
        error, cause = _leave(shard, group, one, caller, now, step)
        rows.append(_row(one, error))
        first = first or cause
    if first is not None:
        shard.rebalancer.after_removal(group, first, now, step)
    step.reply_when_written(caller, _response(caller, rows))


def leave_error(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def _leave(
    shard: Shard, group: Group, one: MemberIdentity, caller: Caller, now: int, step: Step
) -> tuple[ErrorCode, Cause | None]:
    by_admin = not one.member_id and one.group_instance_id is not None
    member_id = group.static_members.get(one.group_instance_id or "", "") if by_admin else one.member_id
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        shard.timers.cancel(("session", group.group_id, member_id))
        return ErrorCode.NONE, Cause(Trigger.MEMBER_LEFT, Who(member_id), one.reason)
    try:
        member = group.check_member(member_id, one.group_instance_id)
    except KafkaError as error:
        who = caller.who(one.member_id, one.group_instance_id)
        step.note_fenced(error.code, group.group_id, who, "LeaveGroup", now)
        return error.code, None
    departure = Departure.REMOVED if by_admin else Departure.LEFT
    if not by_admin:
        member.last_seen = now
    shard.rebalancer.remove_member(group, member, departure, now, step, said=one.reason)
    trigger = Trigger.MEMBER_REMOVED if by_admin else Trigger.MEMBER_LEFT
    return ErrorCode.NONE, Cause(trigger, member.who, one.reason)


def _row(one: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)


def _response(caller: Caller, rows: list[MemberResponse]) -> LeaveGroupResponse:
    """Up to v2 there is one member, and its error is the answer's."""
    if caller.version >= _BATCHED_FROM:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=rows)
    return LeaveGroupResponse(error_code=rows[0].error_code)
