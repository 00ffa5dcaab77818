"""CreatePartitions (37): more partitions for a topic; fewer is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.broker.handlers.repeated_names import RepeatedNames
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


class _Growing:
    """One request. Its topics are checked one by one and saved together; a name that stands twice is refused, as on
    Kafka (ControllerApis.createPartitions)."""

    def __init__(self, server: Server, request: CreatePartitionsRequest, call: Call) -> None:
        self.server = server
        self.request = request
        self.call = call
        self.repeated = RepeatedNames(topic.name for topic in request.topics)
        self.answers: dict[str, CreatePartitionsTopicResult] = {}
        self.counts: dict[Topic, int] = {}
        self.replicas: dict[Topic, tuple[tuple[int, ...], ...]] = {}  # of the new ones, where they are named

    def steps(self) -> Iterator[None]:
        for name, asked in {topic.name: topic for topic in self.request.topics}.items():
            self.answers[name] = self.check(name, asked)
        if self.counts:
            yield from self.grow()

    def check(self, name: str, asked: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        try:
            self.repeated.check(name, name)
            self.server.authorize(self.call, AclOperation.ALTER, Resource(ResourceType.TOPIC, name))
            topic = self.server.topics.require(name)
            self.server.topics.check_growth(topic, asked.count)
            replicas = _assigned(self.server, asked, len(topic.partitions))
        except KafkaError as error:
            return _refused(name, error)
        self.counts[topic] = asked.count
        self.replicas[topic] = replicas
        return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)

    def grow(self) -> Iterator[None]:
        topics = self.server.topics
        try:
            if self.request.validate_only:
                topics.check_new(topics.check_growth(topic, count) for topic, count in self.counts.items())
            else:
                yield from topics.grow(self.counts, self.replicas)
        except KafkaError as error:
            self.answers |= {topic.name: _refused(topic.name, error) for topic in self.counts}

    def response(self) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=list(self.answers.values()))


def _refused(name: str, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))


def _assigned(server: Server, asked: CreatePartitionsTopic, had: int) -> tuple[tuple[int, ...], ...]:
    """The replicas of the new partitions; none, where the broker is to choose."""
    if asked.assignments is None:
        return ()
    added = asked.count - had
    if len(asked.assignments) != added:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{added} new partitions need {added} assignments")
    return server.cluster.check_assignment(row.broker_ids for row in asked.assignments)
