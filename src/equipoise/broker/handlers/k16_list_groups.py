"""ListGroups (16): the groups that the caller may see, of all shards; an error while a shard is loading."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.admin import GROUP_TYPES, list_groups
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.states import GroupState
from equipoise.coordinator.shard_state import Status
from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_STATES = frozenset(state.value.lower() for state in (*State, *GroupState))
_TYPES = frozenset(GROUP_TYPES)


def handle(server: Server, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """Lists the groups of this broker that pass the filters (KafkaApis.handleListGroupsRequest)."""
    shards = [shard.core for shard in server.group_coordinator.shards_of(call)]
    if any(shard.status is Status.LOADING for shard in shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states, types = _known(request.states_filter, _STATES), _known(request.types_filter, _TYPES)
    groups = [row for shard in shards for row in list_groups(shard, states, types)]
    if not server.is_authorized(call, AclOperation.DESCRIBE, CLUSTER, quiet=True):
        groups = [row for row in groups if _is_visible(server, call, row.group_id)]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)


def _is_visible(server: Server, call: Call, group_id: str) -> bool:
    return server.is_authorized(call, AclOperation.DESCRIBE, Resource(ResourceType.GROUP, group_id), quiet=True)


def _known(asked: list[str], known: frozenset[str]) -> list[str]:
    """What is asked for and exists, however long the list is; if none of it does, one of the rest, to find nothing."""
    found = [word for word in dict.fromkeys(asked) if word.strip().lower() in known]
    return found or asked[:1]
