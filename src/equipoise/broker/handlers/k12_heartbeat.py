"""Heartbeat (12). The broker may hold it, for clients that can bear it, see `broker/groups/held_heartbeats.py`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-4"


@cache
def _all_is_well(version: int) -> bytes:
    return HeartbeatResponse(error_code=ErrorCode.NONE).encode(version)


def handle(server: Server, request: HeartbeatRequest, call: Call) -> HeartbeatResponse | bytes | None:
    """Answers at once where all is well, or asks the shard (KafkaApis.handleHeartbeatRequest)."""
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
    shard = server.group_coordinator.shard_of(request.group_id)
    held = call.connection.held_heartbeat
    member = shard.core.find_member(request.group_id, request.member_id)
    note_carrier(server, call, member or shard.core.presence_of(request.group_id, request.member_id))
    hold_ms = held.limit(server.config, member, call.now)
    if hold_ms == 0 and shard.core.is_well(request, call.now):
        return _all_is_well(call.version)
    shard.run(shard.core.heartbeat(request, caller_of(call), call.now, hold_ms))
    if call.pieces is None and member is not None:
        held.begin(shard, request, member, call)
    return None
