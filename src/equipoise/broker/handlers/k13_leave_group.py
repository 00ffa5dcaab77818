"""LeaveGroup (13). A JoinGroup of the same member that is parked is answered too, on whichever connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-5"


def handle(server: Server, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | None:
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    shard = server.groups.shard_of(request.group_id)
    shard.run(shard.core.leave_group(request, caller_of(call), call.now))
    return None
