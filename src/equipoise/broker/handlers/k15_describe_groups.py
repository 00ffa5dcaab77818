"""DescribeGroups (15). An unknown group is Dead; from v6 on that is also an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import loaded_shard
from equipoise.coordinator.admin import describe_group
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-6"


def handle(server: Server, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse | None:
    """Describes each group once (KafkaApis.handleDescribeGroupsRequest)."""

    def describe(group_id: str) -> DescribedGroup:
        group = _describe(server, group_id, call)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = server.authorized_operations(call, Resource(ResourceType.GROUP, group_id))
        return group

    asked = dict.fromkeys(request.groups)  # each once: a small request could ask a thousand times for a large group
    server.turns.encode_each(call, asked, describe, lambda groups: DescribeGroupsResponse(groups=groups))
    return None


def _describe(server: Server, group_id: str, call: Call) -> DescribedGroup:
    try:
        shard = loaded_shard(server, call, AclOperation.DESCRIBE, group_id).core
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, group_id=group_id, group_state="")
    return describe_group(shard, group_id, call.version)
