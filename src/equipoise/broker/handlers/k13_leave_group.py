"""LeaveGroup (13). A parked JoinGroup of the same member is answered too, on any connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-5"
_PORTION = 500  # members, some 5 ms


def handle(server: Server, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | None:
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    shard = server.groups.shard_of(request.group_id)
    if len(request.members) <= _PORTION:
        shard.run(shard.core.leave_group(request, caller_of(call), call.now))
    else:
        server.turns.run(call, _leave_in_portions(shard, request, call), None)
    return None


class _Gathered:
    """The token of a request that the group sees in portions: answered once, with the rows of all."""

    def __init__(self, call: Call, portions: int) -> None:
        self._call = call
        self._left = portions
        self._answer = LeaveGroupResponse(error_code=ErrorCode.NONE, members=[])

    def reply(self, response: Message) -> None:
        assert isinstance(response, LeaveGroupResponse)
        self._answer.members += response.members
        self._answer.error_code = self._answer.error_code or response.error_code
        self._left -= 1
        if not self._left:
            self._call.reply(self._answer)


def _leave_in_portions(shard: GroupShard, request: LeaveGroupRequest, call: Call) -> Iterator[None]:
    """An administrator may remove thousands with one request: others are served in between."""
    portions = [request.members[at : at + _PORTION] for at in range(0, len(request.members), _PORTION)]
    caller = caller_of(call, _Gathered(call, len(portions)))
    for members in portions:
        part = LeaveGroupRequest(group_id=request.group_id, member_id="", members=members)
        shard.run(shard.core.leave_group(part, caller, call.now))
        yield
