"""ConsumerGroupDescribe (69): state, epochs, members, assignments and targets of `consumer` groups (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from equipoise.broker.handlers.groups import loaded_shard
from equipoise.coordinator.consumer.describe import describe_consumer_group
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from equipoise.wire.compiler import encode_rows
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-1"
_HIDES_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def handle(server: Server, request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse | None:
    """Describes each group once (KafkaApis.handleConsumerGroupDescribe).

    Its members become bytes in the turn of their group: the answer for thousands of partitions takes long to encode.
    """
    asked = dict.fromkeys(request.group_ids)
    if not server.group_coordinator.config.serves_consumer_groups:
        off = ErrorCode.UNSUPPORTED_VERSION
        return ConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(error_code=off, group_id=name) for name in asked]
        )

    def describe(group_id: str) -> DescribedConsumerGroup:
        group = _describe(server, group_id, call)
        group.members = cast(Any, encode_rows(ConsumerGroupDescribeResponse, call.version, group.members))
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = server.authorized_operations(call, Resource(ResourceType.GROUP, group_id))
        return group

    server.turns.encode_each(call, asked, describe, lambda groups: ConsumerGroupDescribeResponse(groups=groups))
    return None


def _describe(server: Server, group_id: str, call: Call) -> DescribedConsumerGroup:
    try:
        shard = loaded_shard(server, call, AclOperation.DESCRIBE, group_id).core
    except KafkaError as error:
        return DescribedConsumerGroup(error_code=error.code, group_id=group_id)
    group = describe_consumer_group(shard, group_id)
    if not server.allows_all and not all(_may_see(server, call, name) for name in _topics(group)):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return DescribedConsumerGroup(error_code=denied, error_message=_HIDES_TOPICS, group_id=group_id)
    return group


def _topics(group: DescribedConsumerGroup) -> set[str]:
    """What the assignments and targets of the members name."""
    parts = [part for member in group.members for part in (member.assignment, member.target_assignment)]
    return {row.topic_name for part in parts for row in part.topic_partitions}


def _may_see(server: Server, call: Call, name: str) -> bool:
    return server.is_authorized(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, name))
