"""Heartbeat (12). The broker may hold it, for clients that can bear it, see `broker/groups/held_heartbeats.py`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from equipoise.broker.groups.held_heartbeats import Silence, SilenceOfGuest
from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.coordinator.classic.group import ClassicGroupMember
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.coordinator.consumer.group import Presence
    from equipoise.coordinator.shard import Shard


@cache
def _all_is_well(version: int) -> bytes:
    return HeartbeatResponse(error_code=ErrorCode.NONE).encode(version)


def _silence(core: Shard, request: HeartbeatRequest, member: ClassicGroupMember | Presence | None) -> Silence | None:
    """Of a member of a classic group; a group that is shown so may be kept otherwise."""
    if isinstance(member, ClassicGroupMember):
        return member
    guest = core.find_incremental_member(request.group_id, request.member_id)
    if guest is None or guest.classic is None:
        return None
    return SilenceOfGuest(guest.classic.session_timeout_ms, guest.instance_id is not None)


def handle(server: Server, request: HeartbeatRequest, call: Call) -> HeartbeatResponse | bytes | None:
    """Answers at once where all is well, or asks the shard (KafkaApis.handleHeartbeatRequest)."""
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
    shard = server.group_coordinator.shard_for(call, request.group_id)
    held = call.connection.held_heartbeat
    member = shard.core.find_noted(request.group_id, request.member_id)
    note_carrier(server, call, member)
    silence = _silence(shard.core, request, member) if held.is_patient else None
    hold_ms = held.limit(server.config, member, silence, call.now)
    if hold_ms == 0 and shard.core.is_well(request, call.now):
        return _all_is_well(call.version)
    shard.run(shard.core.heartbeat(request, caller_of(call), call.now, hold_ms))
    if member is not None and hold_ms and shard.core.is_held(request.group_id, request.member_id):
        held.begin(shard, request, member, call)
    return None
