"""DescribeConfigs (32) for topics, groups and this broker, each value with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.topics.config import ConfigRow, describe, describe_broker
from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from equipoise.wire.compiler import encode_rows
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_ADVERTISED = "advertised.listeners"


def handle(server: Server, request: DescribeConfigsRequest, call: Call) -> None:
    """Each resource once: a small request could ask a thousand times for the longest answer there is
    (ConfigHelper.handleDescribeConfigsRequest)."""
    asked = {(one.resource_type, one.resource_name): one for one in request.resources}
    server.turns.encode_each(
        call,
        asked.values(),
        lambda one: _describe(server, request, call, one),
        lambda results: DescribeConfigsResponse(results=results),
    )


def _describe(
    server: Server, request: DescribeConfigsRequest, call: Call, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",  # as Kafka: not null
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )
    try:
        rows = _rows(server, call, asked)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    keys = set(asked.configuration_keys or [row.name for row in rows])
    told = [_result(row, request) for row in rows if row.name in keys]
    result.configs = encode_rows(DescribeConfigsResponse, call.version, told)  # type: ignore[assignment]
    return result


def config_resource(resource_type: int, name: str) -> Resource | None:
    """Whose permission a config resource needs; None: the type is unknown (ConfigHelper, ControllerApis)."""
    if resource_type == TOPIC:
        return Resource(ResourceType.TOPIC, name)
    if resource_type == GROUP:
        return Resource(ResourceType.GROUP, name)
    return CLUSTER if resource_type in (BROKER, BROKER_LOGGER, CLIENT_METRICS) else None


def _rows(server: Server, call: Call, asked: DescribeConfigsResource) -> list[ConfigRow]:
    resource = config_resource(asked.resource_type, asked.resource_name)
    if resource is not None:
        server.authorize(call, AclOperation.DESCRIBE_CONFIGS, resource)
    if asked.resource_type == TOPIC:
        return describe(server.topics.defaults, server.topics.require(asked.resource_name).configs)
    if asked.resource_type == BROKER:
        node_id = call.connection.listener.node_id
        if asked.resource_name not in ("", str(node_id)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is broker {node_id}, not {asked.resource_name}")
        return [_in_use(server, call, row) for row in describe_broker(server.config)]
    if asked.resource_type == GROUP:
        return server.group_coordinator.configs.describe(asked.resource_name)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resource type {asked.resource_type} is not served: 2 topic, 4 broker, 32 group"
    )


def _in_use(server: Server, call: Call, row: ConfigRow) -> ConfigRow:
    """The listener that this client is told of, whether or not it was set, in Kafka's form; and what differs between
    several brokers."""
    node = server.cluster.nodes[call.connection.listener.node_id]
    if server.cluster.is_many and row.name in ("node.id", "broker.rack"):
        return row._replace(value=str(node.node_id) if row.name == "node.id" else node.rack or "")
    if row.name != _ADVERTISED:
        return row
    host, port = node.address_for(call.connection)
    return row._replace(value=f"PLAINTEXT://[{host}]:{port}" if ":" in host else f"PLAINTEXT://{host}:{port}")


def _result(row: ConfigRow, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=False,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=row.type,
        documentation=row.doc if request.include_documentation else None,
    )
