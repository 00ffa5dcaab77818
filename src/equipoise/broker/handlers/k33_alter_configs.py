"""AlterConfigs (33): replaces all configs of a topic. A broker's settings are fixed at its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from equipoise.broker.config import BrokerConfig
from equipoise.broker.handlers.k32_describe_configs import BROKER_LOGGER, TOPIC, config_resource
from equipoise.broker.handlers.repeated_names import RepeatedNames
from equipoise.broker.topics.config import effective
from equipoise.broker.topics.topics import Topic
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-2"
Change = Callable[[Topic], dict[str, str]]  # makes a topic's new configs of what it has


def handle(server: Server, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse | None:
    """Replaces the configs of each topic (ControllerApis.handleLegacyAlterConfigs)."""
    altering = Altering(server, call, validate_only=request.validate_only)
    for asked in request.resources:
        configs = {row.name: row.value for row in asked.configs if row.value is not None}
        altering.add(asked.resource_type, asked.resource_name, lambda topic, configs=configs: configs)  # type: ignore[misc]
    server.turns.run(call, altering.steps(), lambda: AlterConfigsResponse(responses=altering.answers))
    return None


class Altering:
    """Changes of topics' configs, for this API and for IncrementalAlterConfigs: checked one by one, saved together.

    A resource that stands twice in a request is refused, as on Kafka (ControllerApis.handleLegacyAlterConfigs).
    """

    def __init__(self, server: Server, call: Call, *, validate_only: bool) -> None:
        self._server = server
        self._call = call
        self._validate_only = validate_only
        self._asked: list[tuple[int, str, Change | None]] = []
        self._changes: dict[Topic, tuple[dict[str, str], BrokerConfig]] = {}
        self._changing: list[AlterConfigsResourceResponse] = []
        self.answers: list[AlterConfigsResourceResponse] = []

    def add(self, resource_type: int, name: str, change: Change | None) -> None:
        """None: nothing of a broker's is to be set, only removed, as tools do behind a reassignment."""
        self._asked.append((resource_type, name, change))

    def steps(self) -> Iterator[None]:
        """Checks one resource in each step, then saves all changes."""
        repeated = RepeatedNames(one[:2] for one in self._asked)
        for resource_type, name, change in {one[:2]: one for one in self._asked}.values():
            answer = AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE, resource_type=resource_type, resource_name=name
            )
            self.answers.append(answer)
            try:
                repeated.check((resource_type, name), name)
                self._check(resource_type, name, change)
                self._changing.append(answer)
            except KafkaError as error:
                answer.error_code, answer.error_message = error.code, str(error)
            yield
        if self._changes and not self._validate_only:
            self._save()

    def _check(self, resource_type: int, name: str, change: Change | None) -> None:
        resource = config_resource(resource_type, name)
        if resource is not None and resource_type != BROKER_LOGGER:
            self._server.authorize(self._call, AclOperation.ALTER_CONFIGS, resource)
        if change is None:  # while a broker runs none of its settings is set: there is nothing to remove
            return
        if resource_type != TOPIC:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "only topics' configs can be altered; a broker's are set with --set at start"
            )
        topic = self._server.topics.require(name)
        configs = change(topic)
        self._changes[topic] = configs, effective(self._server.topics.defaults, configs)

    def _save(self) -> None:
        try:
            self._server.topics.set_configs(self._changes)
        except KafkaError as error:
            for answer in self._changing:
                answer.error_code, answer.error_message = error.code, str(error)
