"""ListGroups (16): the groups of every shard here that the caller may see; while one is loading, an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.coordinator.admin import list_groups
from equipoise.coordinator.shard import Status
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-5"


def handle(server: Server, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    shards = [shard.core for shard in server.groups.shards]
    if any(shard.status is Status.LOADING for shard in shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    groups = [
        row
        for shard in shards
        for row in list_groups(shard, request.states_filter, request.types_filter)
        if server.may(Operation.DESCRIBE, Resource(Kind.GROUP, row.group_id))
    ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)
