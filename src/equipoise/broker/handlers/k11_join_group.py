"""JoinGroup (11). Parked by the coordinator until the join phase ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.groups.held_heartbeats import note_rejoin
from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.coordinator.classic.replies import join_error
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | None:
    """Authorizes, and asks the shard of the group (KafkaApis.handleJoinGroupRequest)."""
    caller = caller_of(call)
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return join_error(caller, error.code, "")
    shard = server.group_coordinator.shard_for(call, request.group_id)
    member_id = request.member_id
    if member_id:
        note_rejoin(shard.core.find_noted(request.group_id, member_id))
    shard.run(shard.core.join_group(request, caller, call.now))
    if member_id:
        note_carrier(server, call, shard.core.find_noted(request.group_id, member_id))
    return None
