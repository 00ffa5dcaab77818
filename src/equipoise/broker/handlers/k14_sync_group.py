"""SyncGroup (14). From v5 on, protocol type and name are required; that check comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_WITH_PROTOCOL = 5


def handle(server: Server, request: SyncGroupRequest, call: Call) -> SyncGroupResponse | None:
    """Authorizes, and asks the shard of the group (KafkaApis.handleSyncGroupRequest)."""
    if call.version >= _FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    shard = server.group_coordinator.shard_for(call, request.group_id)
    note_carrier(server, call, shard.core.find_noted(request.group_id, request.member_id))
    shard.run(shard.core.sync_group(request, caller_of(call), call.now))
    return None
