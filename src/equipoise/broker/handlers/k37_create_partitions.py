"""CreatePartitions (37): more partitions for a topic; fewer is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-3"


def handle(server: Server, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    results = []
    for asked in request.topics:
        result = CreatePartitionsTopicResult(name=asked.name, error_code=ErrorCode.NONE)
        try:
            server.authorize(call, Operation.ALTER, Resource(Kind.TOPIC, asked.name))
            _add(server, asked, request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return CreatePartitionsResponse(results=results)


def _add(server: Server, asked: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = server.topics.require(asked.name)
    if asked.assignments is not None:
        added = asked.count - len(topic.partitions)
        if len(asked.assignments) != added or any(row.broker_ids != [server.node_id] for row in asked.assignments):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} new partitions need {added} assignments, each to broker {server.node_id}, the only one",
            )
    server.topics.grow(topic, asked.count, validate_only=validate_only)
