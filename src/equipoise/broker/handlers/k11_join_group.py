"""JoinGroup (11). Parked by the coordinator until the join phase ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.broker.handlers.groups import caller_of
from equipoise.coordinator.replies import join_error
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-9"


def handle(server: Server, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | None:
    caller = caller_of(call)
    try:
        server.authorize(call, Operation.READ, Resource(Kind.GROUP, request.group_id))
    except KafkaError as error:
        return join_error(caller, error.code, "")
    shard = server.groups.shard_of(request.group_id)
    shard.run(shard.core.join_group(request, caller, server.clock.now()))
    return None
