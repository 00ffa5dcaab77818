"""DescribeGroups (15). An unknown group is Dead; from v6 on that is also an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.broker.handlers.groups import LivenessRows, loaded_shard
from equipoise.coordinator.admin import describe_group
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.liveness import LiveDescribeGroupsResponse

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

RESPONSE = LiveDescribeGroupsResponse


def handle(server: Server, request: DescribeGroupsRequest, call: Call) -> None:
    """Describes each group once (KafkaApis.handleDescribeGroupsRequest). Our own clients get deadlines with it."""
    deadlines = LivenessRows(server, call, LiveDescribeGroupsResponse)

    def describe(group_id: str) -> DescribedGroup:
        group = _describe(server, group_id, call)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = server.authorized_operations(call, Resource(ResourceType.GROUP, group_id))
        if group.error_code == ErrorCode.NONE:
            deadlines.add(group_id)
        return group

    def respond(groups: Any) -> DescribeGroupsResponse:
        return LiveDescribeGroupsResponse(groups=groups, liveness=deadlines.rows)

    asked = dict.fromkeys(request.groups)  # each once: a small request could ask a thousand times for a large group
    server.turns.encode_each(call, asked, describe, respond)


def _describe(server: Server, group_id: str, call: Call) -> DescribedGroup:
    try:
        shard = loaded_shard(server, call, AclOperation.DESCRIBE, group_id).core
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, group_id=group_id, group_state="")
    return describe_group(shard, group_id, call.version)
