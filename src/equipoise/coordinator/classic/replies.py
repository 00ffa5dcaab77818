"""Responses that several requests share."""

from __future__ import annotations

from equipoise.coordinator.classic.group import ClassicGroupMember, Group
from equipoise.coordinator.reasons import Who
from equipoise.coordinator.step import Caller
from equipoise.wire.apis.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from equipoise.wire.apis.k14_sync_group import SyncGroupResponse
from equipoise.wire.apis.k15_describe_groups import DescribedGroupMember
from equipoise.wire.errors import ErrorCode

_NULL_PROTOCOL_FROM = 7  # the version of JoinGroup that says "no protocol" with null
_NOBODY: list[JoinGroupResponseMember] = []  # shared: ten thousand new lists would wake the garbage collector


def join_error(caller: Caller, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A refused JoinGroup. Rule 2.12."""
    return JoinGroupResponse(error_code=error, protocol_name=_protocol_name(caller, None), member_id=member_id)


def joined(group: Group, member: ClassicGroupMember, caller: Caller) -> JoinGroupResponse:
    """The generation as it stands; to the leader with all members' metadata."""
    leader, member_id = group.leader, member.member_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or _protocol_name(caller, None),
        leader=leader or "",
        member_id=member_id,
        members=group.members_for_leader() if member_id == leader else _NOBODY,
    )


def _protocol_name(caller: Caller, name: str | None) -> str | None:
    return name or (None if caller.version >= _NULL_PROTOCOL_FROM else "")


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup."""
    return SyncGroupResponse(error_code=error)


def synced(group: Group, member: ClassicGroupMember) -> SyncGroupResponse:
    """The member's part of the assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def described_member(who: Who, metadata: bytes, assignment: bytes) -> DescribedGroupMember:
    """A member as DescribeGroups shows it."""
    return DescribedGroupMember(**who._asdict(), member_metadata=metadata, member_assignment=assignment)
