"""Metadata (3). Creates the topics it names when both the client and `auto.create.topics.enable` allow it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.broker.handlers.topics import authorize_create
from equipoise.broker.net.authorizer import NO_OPERATIONS
from equipoise.broker.topics.topics import INTERNAL_TOPICS, NewTopic, Topic, unify_collision_chars
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.compiler import encode_rows
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import ZERO_UUID, Encoded

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_VERSION_WITH_IDS = 12
_INDEX_AT = 2  # in a row of a partition, behind its error code


def handle(server: Server, request: MetadataRequest, call: Call) -> None:
    """Describes topics, and creates those that are missing (KafkaApis.handleTopicMetadataRequest)."""
    asking = _Asking(server, request, call)
    server.turns.run(call, asking.steps(), asking.response)


class _New(NamedTuple):
    """A topic that is about to be created, because it was asked for."""

    asked: MetadataRequestTopic
    topic: Topic


Found = Topic | _New | MetadataResponseTopic


class _Asking:
    """One request's way through the topics it names, each once, as Kafka does. New ones are created together."""

    def __init__(self, server: Server, request: MetadataRequest, call: Call) -> None:
        self.server = server
        self.request = request
        self.call = call
        self.may_create = request.allow_auto_topic_creation and server.config.auto_create_topics_enable
        self.planned: dict[str, NewTopic] = {}
        self.found: list[Found] = []
        self.rows: list[MetadataResponseTopic] = []

    def steps(self) -> Iterator[None]:
        topics = self.request.topics
        if topics is None or (self.call.version == 0 and not topics):
            self.found = [*self.server.visible_topics(self.call)]
        else:
            yield from self.search(topics)
        for found in self.found:
            self.rows.append(self.describe(found))
            yield

    def search(self, topics: list[MetadataRequestTopic]) -> Iterator[None]:
        for asked in {(asked.name, asked.topic_id): asked for asked in topics}.values():
            self.found.append(self.find(asked))
            yield
        if self.planned:
            yield from self.create()

    def create(self) -> Iterator[None]:
        try:
            self.server.topics.check_new(count for _, count in self.planned.values())
            self.found = [self.check_again(one) if isinstance(one, _New) else one for one in self.found]
            yield from self.server.topics.create(self.planned.values())
        except KafkaError as error:
            yield from self.refuse_new(error)

    def refuse_new(self, error: KafkaError) -> Iterator[None]:
        for index, one in enumerate(self.found):
            if isinstance(one, _New):
                self.found[index] = self.refuse(one.asked, error)
                yield

    def check_again(self, new: _New) -> Found:
        """Another request may have taken the name, while this one was looking for its topics in slices."""
        try:
            self.server.topics.check_free(new.topic.name)
        except KafkaError as error:
            del self.planned[unify_collision_chars(new.topic.name)]
            return self.refuse(new.asked, error)
        return new

    def find(self, asked: MetadataRequestTopic) -> Found:
        try:
            if self.call.version < _FIRST_VERSION_WITH_IDS and (asked.name is None or any(asked.topic_id)):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {self.call.version} asks for topics by name")
            if any(asked.topic_id):
                asked.name = None  # Java asks for a pattern's topics by their ids, with empty names
            if asked.name is None:
                topic = self.server.topics.require_id(asked.topic_id)
                self.server.authorize(self.call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, topic.name))
                return topic
            self.server.authorize(self.call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, asked.name))
            return self.server.topics.get(asked.name) or self.missing(asked, asked.name)
        except KafkaError as error:
            return self.refuse(asked, error)

    def missing(self, asked: MetadataRequestTopic, name: str) -> Found:
        if self.may_create:
            authorize_create(self.server, self.call, name)
        self.server.topics.check_name(name)
        if not self.may_create or name in INTERNAL_TOPICS:
            return self.server.topics.require(name)
        planned = self.server.topics.plan(name, self.server.config.num_partitions, {}, self.planned)
        self.planned[unify_collision_chars(name)] = planned
        return _New(asked, planned.topic)

    def refuse(self, asked: MetadataRequestTopic, error: KafkaError) -> MetadataResponseTopic:
        # A topic that another request is just creating will soon be there: the client asks again.
        being_created = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
        return MetadataResponseTopic(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if being_created else error.code,
            name=asked.name if self.call.version >= _FIRST_VERSION_WITH_IDS else asked.name or "",
            topic_id=asked.topic_id or ZERO_UUID,
            partitions=[],
            topic_authorized_operations=self.operations_in_error(asked, error.code),
        )

    def response(self) -> MetadataResponse:
        cluster = self.server.cluster
        brokers = [
            MetadataResponseBroker(node_id=node.node_id, host=host, port=port, rack=node.rack)
            for node, host, port in cluster.endpoints(self.call.connection)
        ]
        response = MetadataResponse(
            brokers=brokers,
            cluster_id=self.server.cluster_id,
            controller_id=cluster.controller_id,
            topics=self.rows,
        )
        if self.request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = self.server.cluster_operations(self.call)
        return response

    def operations(self, name: str) -> int:
        return self.server.authorized_operations(self.call, Resource(ResourceType.TOPIC, name))

    def operations_in_error(self, asked: MetadataRequestTopic, error: ErrorCode) -> int:
        """A name that is unknown or illegal has operations like any other (KafkaApis.handleTopicMetadataRequest); a
        topic that the caller may not see, or that is only known by an id that nobody has, tells of none."""
        is_told = self.request.include_topic_authorized_operations and asked.name is not None
        if not is_told or error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return NO_OPERATIONS
        return self.operations(asked.name or "")

    def describe(self, found: Found) -> MetadataResponseTopic:
        if isinstance(found, MetadataResponseTopic):
            return found
        topic = found.topic if isinstance(found, _New) else found
        described = MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=self.partitions(topic),
        )
        if self.request.include_topic_authorized_operations:
            described.topic_authorized_operations = self.operations(topic.name)
        return described

    def partitions(self, topic: Topic) -> Any:
        """One broker that has always led them all needs one look for all of them."""
        placements, cluster = self.server.topics.placements, self.server.cluster
        if not cluster.is_many and not placements.is_placed(topic.topic_id, 0):
            return _partition_rows(self.call.version, self.server.node_id, len(topic.partitions))
        return [MetadataResponsePartition(**cluster.describe(one)) for one in topic.partitions]


def _partition_rows(version: int, node_id: int, count: int) -> Any:
    """All topics' rows are the same but for their number: made once, a request costs little however many it names."""
    rows = 16
    while rows < count:
        rows *= 2
    known = _encoded_rows(version, node_id, rows)
    return Encoded(count, known.data[: count * (len(known.data) // rows)])


@lru_cache(maxsize=64)
def _encoded_rows(version: int, node_id: int, count: int) -> Encoded:
    """One row is encoded. The others differ in the four bytes of their index: tens of thousands take milliseconds."""
    node = [node_id]
    row = MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=0,
        leader_id=node_id,
        leader_epoch=0,
        replica_nodes=node,
        isr_nodes=node,
    )
    data = encode_rows(MetadataResponse, version, [row]).data
    before, after = data[:_INDEX_AT], data[_INDEX_AT + 4 :]
    return Encoded(count, b"".join([before + index.to_bytes(4) + after for index in range(count)]))
