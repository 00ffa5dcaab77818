"""IncrementalAlterConfigs (44): set, delete, append to and subtract from single configs of a topic or of a group."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.k32_describe_configs import BROKER
from equipoise.broker.handlers.k33_alter_configs import Altering, Configs
from equipoise.broker.topics.config import default_text, is_list
from equipoise.broker.topics.topics import Topics
from equipoise.wire.apis.k44_incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(server: Server, request: IncrementalAlterConfigsRequest, call: Call) -> None:
    """Changes single configs of each topic and group (ControllerApis.handleIncrementalAlterConfigs)."""
    altering = Altering(server, call, validate_only=request.validate_only)
    for asked in request.resources:
        change = partial(_changed, server.topics, asked.configs)
        only_removes = {one.config_operation for one in asked.configs} == {DELETE} and asked.resource_type == BROKER
        keys = [one.name for one in asked.configs]
        altering.add(asked.resource_type, asked.resource_name, keys, None if only_removes else change)
    server.turns.run(call, altering.steps(), lambda: IncrementalAlterConfigsResponse(responses=altering.answers))


def _changed(topics: Topics, changes: list[IncrementalAlterableConfig], configs: Configs) -> Configs:
    for change in changes:
        if change.config_operation == DELETE:
            configs.pop(change.name, None)
        elif change.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.name}: a value is needed")
        elif change.config_operation == SET:
            configs[change.name] = change.value
        elif change.config_operation in (APPEND, SUBTRACT):
            configs[change.name] = _combined(topics, configs, change, change.value)
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{change.name}: operation {change.config_operation} is none of 0 to 3"
            )
    return configs


def _combined(topics: Topics, configs: dict[str, str], change: IncrementalAlterableConfig, value: str) -> str:
    if not is_list(change.name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list; use set")
    now = configs.get(change.name, default_text(topics.defaults, change.name)).split(",")
    known, given = set(now), dict.fromkeys(word.strip() for word in value.split(","))  # there may be thousands
    if change.config_operation == SUBTRACT:
        return ",".join(word for word in now if word not in given)
    return ",".join(word for word in [*now, *(word for word in given if word not in known)] if word)
