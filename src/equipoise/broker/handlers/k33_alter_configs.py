"""AlterConfigs (33): replaces all configs of a topic or of a group. A broker's settings are fixed at its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.config import BrokerConfig
from equipoise.broker.handlers.k32_describe_configs import BROKER_LOGGER, GROUP, TOPIC, config_resource
from equipoise.broker.handlers.repeated_names import RepeatedNames
from equipoise.broker.topics.config import effective
from equipoise.broker.topics.topics import Topic
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

Configs = dict[str, str]
Change = Callable[[Configs], Configs]  # makes the new configs of what a topic or a group has


def handle(server: Server, request: AlterConfigsRequest, call: Call) -> None:
    """Replaces the configs of each topic and group (ControllerApis.handleLegacyAlterConfigs)."""
    altering = Altering(server, call, validate_only=request.validate_only)
    for asked in request.resources:
        keys = [row.name for row in asked.configs]
        altering.add(asked.resource_type, asked.resource_name, keys, partial(_replaced, asked))
    server.turns.run(call, altering.steps(), lambda: AlterConfigsResponse(responses=altering.answers))


def _replaced(asked: AlterConfigsResource, before: Configs) -> Configs:
    if asked.resource_type == GROUP and any(row.value is None for row in asked.configs):
        missing = ",".join(row.name for row in asked.configs if row.value is None)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for group configs: {missing}")
    return {row.name: row.value for row in asked.configs if row.value is not None}


class Altering:
    """Changes of configs of topics and groups, for this API and for IncrementalAlterConfigs: checked one by one, saved
    together.

    A resource that stands twice in a request is refused, as on Kafka (ControllerApis.handleLegacyAlterConfigs), and so
    is one with a config that stands twice (ConfigAdminManager.preprocess).
    """

    def __init__(self, server: Server, call: Call, *, validate_only: bool) -> None:
        self._server = server
        self._call = call
        self._validate_only = validate_only
        self._asked: list[tuple[int, str, Sequence[str], Change | None]] = []
        self._changes: dict[Topic, tuple[Configs, BrokerConfig]] = {}
        self._group_changes: dict[str, Configs] = {}
        self._changing: list[AlterConfigsResourceResponse] = []
        self.answers: list[AlterConfigsResourceResponse] = []

    def add(self, resource_type: int, name: str, keys: Sequence[str], change: Change | None) -> None:
        """`keys`: the configs that are to change. None: nothing of a broker's is to be set, only removed, as tools do
        behind a reassignment."""
        self._asked.append((resource_type, name, keys, change))

    def steps(self) -> Iterator[None]:
        """Checks one resource in each step, then saves all changes."""
        repeated = RepeatedNames(one[:2] for one in self._asked)
        for resource_type, name, keys, change in {one[:2]: one for one in self._asked}.values():
            answer = AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE, resource_type=resource_type, resource_name=name
            )
            self.answers.append(answer)
            try:
                repeated.check((resource_type, name), name)
                if len(set(keys)) < len(keys):
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
                self._check(resource_type, name, change)
                self._changing.append(answer)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, str(error)
            yield
        if not self._validate_only:
            self._save()

    def _check(self, resource_type: int, name: str, change: Change | None) -> None:
        resource = config_resource(resource_type, name)
        if resource is not None and resource_type != BROKER_LOGGER:
            self._server.authorize(self._call, AclOperation.ALTER_CONFIGS, resource)
        if change is None:  # while a broker runs none of its settings is set: there is nothing to remove
            return
        if resource_type == TOPIC:
            topic = self._server.topics.require(name)
            configs = change(dict(topic.configs))
            self._changes[topic] = configs, effective(self._server.topics.defaults, configs)
        elif resource_type == GROUP:
            groups = self._server.group_coordinator.configs
            configs = change(groups.of(name))
            groups.check(name, configs)
            self._group_changes[name] = configs
        else:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "only configs of topics and groups can be altered; a broker's are set with --set at start",
            )

    def _save(self) -> None:
        try:
            if self._changes:
                self._server.topics.set_configs(self._changes)
            if self._group_changes:
                self._server.group_coordinator.configs.save(self._group_changes)
        except KafkaError as error:
            for answer in self._changing:
                answer.error_code, answer.error_message = error.code, str(error)
