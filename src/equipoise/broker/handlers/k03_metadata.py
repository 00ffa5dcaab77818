"""Metadata (3). Creates the topics it names when both the client and `auto.create.topics.enable` allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import CLUSTER_OPERATIONS, NO_OPERATIONS, TOPIC_OPERATIONS, Kind, Operation, Resource
from equipoise.broker.topics import INTERNAL_TOPICS, LEADER_EPOCH, Topic
from equipoise.wire.apis.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-13"
_FIRST_VERSION_WITH_IDS = 12


def handle(server: Server, request: MetadataRequest, call: Call) -> MetadataResponse:
    host, port = server.address_for(call.connection)
    broker = MetadataResponseBroker(node_id=server.node_id, host=host, port=port, rack=server.rack)
    response = MetadataResponse(
        brokers=[broker],
        cluster_id=server.cluster_id,
        controller_id=server.node_id,
        topics=[_describe(server, topic, request) for topic in _asked(server, request, call)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _asked(server: Server, request: MetadataRequest, call: Call) -> list[Topic | MetadataResponseTopic]:
    if request.topics is None or (call.version == 0 and not request.topics):
        return [*server.visible_topics()]
    may_create = request.allow_auto_topic_creation and server.config.auto_create_topics_enable
    return [_find(server, call, request, asked, may_create) for asked in request.topics]


def _find(
    server: Server, call: Call, request: MetadataRequest, asked: MetadataRequestTopic, may_create: bool
) -> Topic | MetadataResponseTopic:
    try:
        if call.version < _FIRST_VERSION_WITH_IDS and (asked.name is None or any(asked.topic_id)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"version {call.version} asks for topics by name")
        if asked.name is None:
            topic = server.topics.require_id(asked.topic_id)
            server.authorize(call, Operation.DESCRIBE, Resource(Kind.TOPIC, topic.name))
            return topic
        server.authorize(call, Operation.DESCRIBE, Resource(Kind.TOPIC, asked.name))
        known = server.topics.get(asked.name)
        if known is None and may_create and asked.name not in INTERNAL_TOPICS:
            server.authorize(call, Operation.CREATE, Resource(Kind.TOPIC, asked.name))
            planned = server.topics.plan(asked.name, server.config.num_partitions, {}, {})
            server.topics.create([planned])
            return planned.topic
        server.topics.check_name(asked.name)
        return known or server.topics.require(asked.name)
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code,
            name=asked.name if call.version >= _FIRST_VERSION_WITH_IDS else asked.name or "",
            topic_id=asked.topic_id or ZERO_UUID,
            partitions=[],
            topic_authorized_operations=_operations_in_error(request, asked, error.code),
        )


def _operations_in_error(request: MetadataRequest, asked: MetadataRequestTopic, error: ErrorCode) -> int:
    """A name that is unknown or illegal has operations like any other (KafkaApis.handleTopicMetadataRequest); a topic
    that the caller may not see, or that is only known by an id that nobody has, tells of none."""
    is_told = request.include_topic_authorized_operations and asked.name is not None
    return TOPIC_OPERATIONS if is_told and error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED else NO_OPERATIONS


def _describe(server: Server, topic: Topic | MetadataResponseTopic, request: MetadataRequest) -> MetadataResponseTopic:
    if isinstance(topic, MetadataResponseTopic):
        return topic
    node = [server.node_id]
    described = MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=ErrorCode.NONE,
                partition_index=index,
                leader_id=server.node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=node,
                isr_nodes=node,
            )
            for index in range(len(topic.partitions))
        ],
    )
    if request.include_topic_authorized_operations:
        described.topic_authorized_operations = TOPIC_OPERATIONS
    return described
