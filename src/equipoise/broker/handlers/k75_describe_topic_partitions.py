"""DescribeTopicPartitions (75): Java's admin client uses it instead of Metadata. Topics by name, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

PAGE = 2000


def handle(server: Server, request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    """Describes topics up to the limit, and says where to go on
    (DescribeTopicPartitionsRequestHandler.handleDescribeTopicPartitionsRequest)."""
    left = min(max(request.response_partition_limit, 1), PAGE)
    response = DescribeTopicPartitionsResponse(topics=[])
    for cursor in _asked(server, request, call):
        if left == 0:
            response.next_cursor = cursor
            break
        topic, count = _describe(server, call, cursor, left)
        response.topics.append(topic)
        left -= len(topic.partitions)
        cursor.partition_index += len(topic.partitions)
        if cursor.partition_index < count:
            response.next_cursor = cursor
            break
    return response


def _asked(server: Server, request: DescribeTopicPartitionsRequest, call: Call) -> Iterator[Cursor]:
    """Names in order, each with its first partition, from the cursor on."""
    names = {topic.name for topic in request.topics or server.visible_topics(call)}
    cursor = request.cursor
    for name in sorted(names):
        if cursor is None or name > cursor.topic_name:
            yield Cursor(topic_name=name, partition_index=0)
        elif name == cursor.topic_name:
            yield Cursor(topic_name=name, partition_index=max(cursor.partition_index, 0))


def _describe(
    server: Server, call: Call, cursor: Cursor, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int]:
    """The topic's page, and how many partitions it has in all."""
    name, first = cursor.topic_name, cursor.partition_index
    answer = DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.NONE, name=name, partitions=[])
    try:
        resource = Resource(ResourceType.TOPIC, name)
        server.authorize(call, AclOperation.DESCRIBE, resource)
        # Of an unknown or illegal name too, as on Kafka.
        answer.topic_authorized_operations = server.authorized_operations(call, resource)
        server.topics.check_name(name)
        topic = server.topics.require(name)
    except KafkaError as error:
        answer.error_code = error.code
        return answer, 0
    count = len(topic.partitions)
    answer.topic_id, answer.is_internal = topic.topic_id, topic.is_internal
    answer.partitions = [
        DescribeTopicPartitionsResponsePartition(
            **server.cluster.describe(one), eligible_leader_replicas=[], last_known_elr=[]
        )
        for one in topic.partitions[first : first + limit]
    ]
    return answer, count
