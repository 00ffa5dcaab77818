"""Heartbeat (12). May be held for clients that are known to bear it, see `broker/holding.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.broker.handlers.groups import caller_of
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-4"


def handle(server: Server, request: HeartbeatRequest, call: Call) -> HeartbeatResponse | None:
    try:
        server.authorize(call, Operation.READ, Resource(Kind.GROUP, request.group_id))
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
    shard = server.groups.shard_of(request.group_id)
    now = server.clock.now()
    hold = call.connection.holding.limit(server.config, request, now)
    shard.run(shard.core.heartbeat(request, caller_of(call), now, hold))
    if call.pieces is None:
        call.connection.holding.held(shard, request, call)
    return None
