"""CreateTopics (19). Checked one by one, saved together; a name given twice in one request is refused, as on Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.broker.topic_config import describe
from equipoise.broker.topics import Planned, Topic, folded
from equipoise.wire.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "2-7"
_DEFAULT = -1


def handle(server: Server, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    planned: dict[str, Planned] = {}
    answers = {}
    for name, asked in {topic.name: topic for topic in request.topics}.items():
        try:
            server.authorize(call, Operation.CREATE, Resource(Kind.TOPIC, name))
            if times[name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} stands {times[name]} times here")
            one = planned[folded(name)] = _plan(server, asked, planned)
            answers[name] = _created(server, one)
        except KafkaError as error:
            answers[name] = _refused(name, error)
    if planned and not request.validate_only:
        answers |= _create(server, planned.values())
    return CreateTopicsResponse(topics=list(answers.values()))


def _create(server: Server, planned: Collection[Planned]) -> dict[str, CreatableTopicResult]:
    """The answers that the disk makes others than they were."""
    try:
        server.topics.create(planned)
    except KafkaError as error:
        return {topic.name: _refused(topic.name, error) for topic, _ in planned}
    return {}


def _plan(server: Server, asked: CreatableTopic, beside: Mapping[str, Planned]) -> Planned:
    configs = {row.name: row.value for row in asked.configs if row.value is not None}
    return server.topics.plan(asked.name, _partition_count(server, asked), configs, beside)


def _created(server: Server, planned: Planned) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=planned.topic.name,
        topic_id=planned.topic.topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=planned.partitions,
        replication_factor=1,
        configs=_configs(server, planned.topic),
    )


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error), configs=None)


def _partition_count(server: Server, asked: CreatableTopic) -> int:
    if asked.assignments:
        return _assigned_count(server, asked)
    if asked.replication_factor not in (1, _DEFAULT):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor is {asked.replication_factor}; there is one broker: ask for 1, or -1 for the default",
        )
    return server.config.num_partitions if asked.num_partitions == _DEFAULT else asked.num_partitions


def _assigned_count(server: Server, asked: CreatableTopic) -> int:
    if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "with an assignment, partition count and replication factor must be -1"
        )
    indexes = sorted(row.partition_index for row in asked.assignments)
    if indexes != list(range(len(indexes))) or any(row.broker_ids != [server.node_id] for row in asked.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions must be 0 to {len(indexes) - 1}, each on broker {server.node_id}, the only one",
        )
    return len(indexes)


def _configs(server: Server, topic: Topic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=row.name, value=row.value, read_only=False, config_source=row.source, is_sensitive=False
        )
        for row in describe(server.topics.defaults, topic.configs)
    ]
