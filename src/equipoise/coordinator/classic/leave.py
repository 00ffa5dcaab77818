"""LeaveGroup: members that leave, and static members that an administrator removes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.reasons import Cause, Departure, Trigger, Who
from equipoise.coordinator.step import Caller, Step
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_BATCHED_FROM = 3


def leave_group(shard: Shard, request: LeaveGroupRequest, caller: Caller, step: Step) -> None:
    """Several members go with one rebalance (KIP-345). Rule 3.4. Kafka: GroupMetadataManager.classicGroupLeave."""
    members = identities(request, caller)
    group = shard.groups.get(request.group_id)
    if group is None:
        rows = [leave_row(one, ErrorCode.UNKNOWN_MEMBER_ID) for one in members]
        step.reply(caller, leave_response(caller, rows))
        return
    leaving = _Leaving(shard, group, caller, step)
    rows = [leave_row(one, leaving.leave(one)) for one in members]
    if leaving.cause is not None:
        shard.rebalancer.after_removal(group, leaving.cause, step)
    step.reply_when_written(caller, leave_response(caller, rows))


def leave_error(error: ErrorCode) -> LeaveGroupResponse:
    """An error of the whole request."""
    return LeaveGroupResponse(error_code=error)


@dataclass(slots=True)
class _Leaving:
    """One LeaveGroup on its way through its members. The first of them is the cause of the rebalance."""

    shard: Shard
    group: Group
    caller: Caller
    step: Step
    cause: Cause | None = None

    def leave(self, one: MemberIdentity) -> ErrorCode:
        """A group.instance.id without a member id is an administrator's (KIP-345).

        Kafka: GroupMetadataManager.classicGroupLeaveToClassicGroup.
        """
        group, by_admin = self.group, not one.member_id and one.group_instance_id is not None
        member_id = group.static_members.get(one.group_instance_id or "", "") if by_admin else one.member_id
        if member_id in group.pending_members:
            group.pending_members.discard(member_id)
            self.shard.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))
            self._begin(Trigger.MEMBER_LEFT, Who(member_id), one.reason)
            return ErrorCode.NONE
        try:
            member = group.check_member(member_id, one.group_instance_id)
        except KafkaError as error:
            who = self.caller.who(one.member_id, one.group_instance_id)
            self.step.note_fenced(error.code, group.group_id, who, "LeaveGroup")
            return error.code
        if not by_admin:
            member.last_seen = self.step.now
        departure = Departure.REMOVED if by_admin else Departure.LEFT
        self.shard.rebalancer.remove_member(group, member, departure, self.step, said=one.reason)
        trigger = Trigger.MEMBER_REMOVED if by_admin else Trigger.MEMBER_LEFT
        self._begin(trigger, member.who, one.reason)
        return ErrorCode.NONE

    def _begin(self, trigger: Trigger, who: Who, reason: str | None) -> None:
        if self.cause is None:
            self.cause = Cause(trigger, who, reason)


def identities(request: LeaveGroupRequest, caller: Caller) -> list[MemberIdentity]:
    """The members that are to leave: up to v2 there is one."""
    return request.members if caller.version >= _BATCHED_FROM else [MemberIdentity(member_id=request.member_id)]


def leave_row(one: MemberIdentity, error: ErrorCode) -> MemberResponse:
    """The answer for one member."""
    return MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)


def leave_response(caller: Caller, rows: list[MemberResponse]) -> LeaveGroupResponse:
    """Up to v2 there is one member, and its error is the answer's."""
    if caller.version >= _BATCHED_FROM:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=rows)
    return LeaveGroupResponse(error_code=rows[0].error_code)
