"""AlterConfigs (33): the configs given replace all a topic has. A broker's settings are given when it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.broker.handlers.k32_describe_configs import TOPIC
from equipoise.broker.topics import Topic
from equipoise.wire.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-2"


def handle(server: Server, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    answers = []
    for asked in request.resources:
        configs = {row.name: row.value for row in asked.configs if row.value is not None}

        def replace(topic: Topic, configs: dict[str, str] = configs) -> dict[str, str]:
            return configs

        answers.append(
            alter(server, call, asked.resource_type, asked.resource_name, replace, validate_only=request.validate_only)
        )
    return AlterConfigsResponse(responses=answers)


def alter(
    server: Server,
    call: Call,
    resource_type: int,
    name: str,
    change: Callable[[Topic], dict[str, str]],
    *,
    validate_only: bool,
) -> AlterConfigsResourceResponse:
    """Gives a topic the configs that `change` makes of it; for this API and for IncrementalAlterConfigs."""
    answer = AlterConfigsResourceResponse(error_code=ErrorCode.NONE, resource_type=resource_type, resource_name=name)
    try:
        if resource_type != TOPIC:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "only topics' configs can be altered; a broker's are set with --set at start"
            )
        server.authorize(call, Operation.ALTER_CONFIGS, Resource(Kind.TOPIC, name))
        topic = server.topics.require(name)
        server.topics.set_configs(topic, change(topic), validate_only=validate_only)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    return answer
