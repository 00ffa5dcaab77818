"""LeaveGroup (13). A parked JoinGroup of the same member is answered too, on any connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.broker.handlers.collected_reply import CollectedReply
from equipoise.broker.handlers.groups import authorize_group, caller_of
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_PORTION = 500  # members, some 5 ms


def handle(server: Server, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | None:
    """Authorizes, and asks the shard, in portions where many members leave (KafkaApis.handleLeaveGroupRequest)."""
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    shard = server.group_coordinator.shard_for(call, request.group_id)
    if len(request.members) <= _PORTION:
        shard.run(shard.core.leave_group(request, caller_of(call), call.now))
    else:
        server.turns.run(call, _leave_in_portions(shard, request, call), None)
    return None


def _combined(answers: list[LeaveGroupResponse]) -> LeaveGroupResponse:
    error = next((answer.error_code for answer in answers if answer.error_code), ErrorCode.NONE)
    return LeaveGroupResponse(error_code=error, members=[row for answer in answers for row in answer.members])


def _leave_in_portions(shard: GroupShard, request: LeaveGroupRequest, call: Call) -> Iterator[None]:
    """An administrator may remove thousands with one request: others are served in between."""
    portions = [request.members[at : at + _PORTION] for at in range(0, len(request.members), _PORTION)]
    caller = caller_of(call, CollectedReply(call, len(portions), _combined))
    for members in portions:
        part = LeaveGroupRequest(group_id=request.group_id, member_id="", members=members)
        shard.run(shard.core.leave_group(part, caller, call.now))
        yield
