"""ListConfigResources (74): topics, this broker, and groups with configs of their own. There are no client metrics,
which v0 asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_TOPIC, _BROKER, _CLIENT_METRICS, _GROUP = 2, 4, 16, 32
_KNOWN = frozenset({_TOPIC, _BROKER, 8, _CLIENT_METRICS, _GROUP})  # also broker loggers: there are none
_FIRST_VERSION_WITH_TYPES = 1


def handle(server: Server, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """Without types all; an unknown type is UNSUPPORTED_VERSION (KafkaApis.handleListConfigResources)."""
    types = set(request.resource_types) or _KNOWN
    if call.version < _FIRST_VERSION_WITH_TYPES:
        types = {_CLIENT_METRICS}
    try:
        server.authorize(call, AclOperation.DESCRIBE_CONFIGS, CLUSTER)
        if not types <= _KNOWN:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    except KafkaError as error:
        return ListConfigResourcesResponse(error_code=error.code, config_resources=[])
    topics = [(topic.name, _TOPIC) for topic in server.topics] if _TOPIC in types else []
    brokers = [(str(node_id), _BROKER) for node_id in server.cluster.nodes] if _BROKER in types else []
    groups = [(group_id, _GROUP) for group_id in server.group_coordinator.configs] if _GROUP in types else []
    rows = [ConfigResource(resource_name=name, resource_type=kind) for name, kind in topics + brokers + groups]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=rows)
