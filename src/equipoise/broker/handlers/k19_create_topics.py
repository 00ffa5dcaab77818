"""CreateTopics (19). Checked one by one, saved together. A name given twice is refused, as on Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from equipoise.broker.cluster.placements import Replication
from equipoise.broker.config import BrokerConfig
from equipoise.broker.handlers.topic_by_topic import TopicByTopic
from equipoise.broker.handlers.topics import authorize_create
from equipoise.broker.topics.config import describe
from equipoise.broker.topics.topics import NewTopic, Topic, unify_collision_chars
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from equipoise.wire.compiler import encode_rows
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Encoded

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_DEFAULT = -1


def handle(server: Server, request: CreateTopicsRequest, call: Call) -> None:
    """Checks the topics one by one, and creates them together (ControllerApis.createTopics)."""
    creating = _Creating(server, request, call)
    server.turns.run(call, creating.steps(), creating.response)


class _Creating(TopicByTopic[CreatableTopic, NewTopic, CreatableTopicResult]):
    def __init__(self, server: Server, request: CreateTopicsRequest, call: Call) -> None:
        super().__init__(server, call, request.topics)
        self.is_only_asked = request.validate_only
        self.by_unified_name: dict[str, NewTopic] = {}

    def plan(self, asked: CreatableTopic) -> NewTopic:
        authorize_create(self.server, self.call, asked.name)
        planned = _plan(self.server, asked, self.by_unified_name)
        self.by_unified_name[unify_collision_chars(asked.name)] = planned
        return planned

    def check_again(self, plan: NewTopic) -> None:
        self.server.topics.check_free(plan.topic.name)

    def change(self) -> Iterator[None]:
        if self.is_only_asked:
            self.server.topics.check_new(count for _, count in self.plans.values())
        else:
            yield from self.server.topics.create(self.plans.values())

    def done(self, plan: NewTopic) -> CreatableTopicResult:
        resource = Resource(ResourceType.TOPIC, plan.topic.name)
        may_see = self.server.is_authorized(self.call, AclOperation.DESCRIBE_CONFIGS, resource, quiet=True)
        return _created(self.server, plan, self.call.version) if may_see else _created_unseen(plan)

    def refused(self, name: str, error: KafkaError) -> CreatableTopicResult:
        return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=None)

    def response(self) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=list(self.answers.values()))


def _plan(server: Server, asked: CreatableTopic, beside: Mapping[str, NewTopic]) -> NewTopic:
    configs = {row.name: row.value for row in asked.configs if row.value is not None}
    count, replication = _partition_count(server, asked), _replication(server, asked)
    return server.topics.plan(asked.name, count, configs, beside, replication=replication)


def _replication(server: Server, asked: CreatableTopic) -> Replication:
    if not asked.assignments:
        return Replication(None if asked.replication_factor == _DEFAULT else asked.replication_factor)
    rows = sorted(asked.assignments, key=lambda row: row.partition_index)
    return Replication(None, server.cluster.check_assignment(row.broker_ids for row in rows))


def _created(server: Server, planned: NewTopic, version: int) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=planned.topic.name,
        topic_id=planned.topic.topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=planned.partitions,
        replication_factor=planned.topic.replication.size(server.config.default_replication_factor),
        configs=_configs(server, planned.topic, version),
    )


def _created_unseen(planned: NewTopic) -> CreatableTopicResult:
    """For a caller that may create the topic, and not know its configs (ReplicationControlManager.createTopic)."""
    return CreatableTopicResult(
        name=planned.topic.name,
        topic_id=planned.topic.topic_id,
        error_code=ErrorCode.NONE,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        configs=[],
    )


def _partition_count(server: Server, asked: CreatableTopic) -> int:
    if asked.assignments:
        return _assigned_count(server, asked)
    brokers = server.config.brokers
    if asked.replication_factor != _DEFAULT and not 1 <= asked.replication_factor <= brokers:
        there = (
            "there is one broker: ask for 1" if brokers == 1 else f"there are {brokers} brokers: ask for at most that"
        )
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor is {asked.replication_factor}; {there}, or -1 for the default",
        )
    return server.config.num_partitions if asked.num_partitions == _DEFAULT else asked.num_partitions


def _assigned_count(server: Server, asked: CreatableTopic) -> int:
    if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "with an assignment, partition count and replication factor must be -1"
        )
    indexes = sorted(row.partition_index for row in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions must be 0 to {len(indexes) - 1}")
    return len(indexes)


def _configs(server: Server, topic: Topic, version: int) -> Any:
    if not topic.configs:
        return _default_configs(server.topics.defaults, version)
    return encode_rows(CreateTopicsResponse, version, _rows(server.topics.defaults, topic.configs))


@lru_cache(maxsize=16)
def _default_configs(defaults: BrokerConfig, version: int) -> Encoded:
    """The same for every topic without configs of its own."""
    return encode_rows(CreateTopicsResponse, version, _rows(defaults, {}))


def _rows(defaults: BrokerConfig, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.name, value=row.value, read_only=False, config_source=row.source, is_sensitive=False
        )
        for row in describe(defaults, configs)
    ]
