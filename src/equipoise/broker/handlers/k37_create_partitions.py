"""CreatePartitions (37): more partitions for a topic; fewer is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.broker.handlers.topic_by_topic import TopicByTopic
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Topic


def handle(server: Server, request: CreatePartitionsRequest, call: Call) -> None:
    """Checks the topics one by one, and grows them together (ControllerApis.createPartitions)."""
    growing = _Growing(server, request, call)
    server.turns.run(call, growing.steps(), growing.response)


class _Growth(NamedTuple):
    """A topic, and the partitions that it shall have."""

    topic: Topic
    partitions: int
    replicas: tuple[tuple[int, ...], ...]  # of the new ones, where they are named


class _Growing(TopicByTopic[CreatePartitionsTopic, _Growth, CreatePartitionsTopicResult]):
    def __init__(self, server: Server, request: CreatePartitionsRequest, call: Call) -> None:
        super().__init__(server, call, request.topics)
        self.is_only_asked = request.validate_only

    def plan(self, asked: CreatePartitionsTopic) -> _Growth:
        self.server.authorize(self.call, AclOperation.ALTER, Resource(ResourceType.TOPIC, asked.name))
        topic = self.server.topics.require(asked.name)
        self.server.topics.check_growth(topic, asked.count)
        return _Growth(topic, asked.count, _assigned(self.server, asked, len(topic.partitions)))

    def check_again(self, plan: _Growth) -> None:
        if self.server.topics.require(plan.topic.name) is not plan.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted and created anew meanwhile")
        added = self.server.topics.check_growth(plan.topic, plan.partitions)
        if plan.replicas and len(plan.replicas) != added:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the topic has grown meanwhile")

    def change(self) -> Iterator[None]:
        topics, plans = self.server.topics, self.plans.values()
        if self.is_only_asked:
            topics.check_new(topics.check_growth(topic, count) for topic, count, _ in plans)
        else:
            yield from topics.grow(
                {topic: count for topic, count, _ in plans}, {topic: replicas for topic, _, replicas in plans}
            )

    def done(self, plan: _Growth) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(name=plan.topic.name, error_code=ErrorCode.NONE)

    def refused(self, name: str, error: KafkaError) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))

    def response(self) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=list(self.answers.values()))


def _assigned(server: Server, asked: CreatePartitionsTopic, had: int) -> tuple[tuple[int, ...], ...]:
    """The replicas of the new partitions; none, where the broker is to choose."""
    if asked.assignments is None:
        return ()
    added = asked.count - had
    if len(asked.assignments) != added:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} new partitions need {added} assignments")
    return server.cluster.check_assignment(row.broker_ids for row in asked.assignments)
