"""ConsumerGroupDescribe (69): state, epochs, members, assignments and targets of `consumer` groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from equipoise.broker.handlers.groups import LivenessRows, loaded_shard
from equipoise.coordinator.consumer.describe import describe_consumer_group, describe_members
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
)
from equipoise.wire.compiler import encode_rows, join_rows
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.liveness import LiveConsumerGroupDescribeResponse
from equipoise.wire.schema import Encoded

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

RESPONSE = LiveConsumerGroupDescribeResponse
_HIDES_TOPICS = "The group has described topic(s) that the client is not authorized to describe."
_PORTION = 10  # members between two moments at which others may go on: each may have thousands of partitions


def handle(server: Server, request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse | None:
    """Describes each group once (KafkaApis.handleConsumerGroupDescribe). Our own clients get deadlines with it."""
    asked = dict.fromkeys(request.group_ids)
    if not server.group_coordinator.config.serves_consumer_groups:
        off = ErrorCode.UNSUPPORTED_VERSION
        return LiveConsumerGroupDescribeResponse(
            groups=[DescribedConsumerGroup(error_code=off, group_id=name) for name in asked]
        )
    rows: list[Encoded] = []
    deadlines = LivenessRows(server, call, LiveConsumerGroupDescribeResponse)

    def steps() -> Iterator[None]:
        for group_id in asked:
            group = yield from _describe(server, group_id, call)
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = server.authorized_operations(call, Resource(ResourceType.GROUP, group_id))
            if group.error_code == ErrorCode.NONE:
                deadlines.add(group_id)
            rows.append(encode_rows(ConsumerGroupDescribeResponse, call.version, [group]))
            yield

    def respond() -> ConsumerGroupDescribeResponse:
        return LiveConsumerGroupDescribeResponse(groups=cast(Any, join_rows(rows)), liveness=deadlines.rows)

    server.turns.run(call, steps(), respond)
    return None


def _describe(server: Server, group_id: str, call: Call) -> Generator[None, None, DescribedConsumerGroup]:
    """Its members become bytes portion by portion: the answer for thousands of partitions takes long to encode."""
    try:
        shard = loaded_shard(server, call, AclOperation.DESCRIBE, group_id).core
    except KafkaError as error:
        return DescribedConsumerGroup(error_code=error.code, group_id=group_id)
    group, members = describe_consumer_group(shard, group_id), describe_members(shard, group_id)
    portions = []
    while portion := list(islice(members, _PORTION)):
        if not server.allows_all and not all(_may_see(server, call, name) for name in _topics(portion)):
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return DescribedConsumerGroup(error_code=denied, error_message=_HIDES_TOPICS, group_id=group_id)
        portions.append(encode_rows(ConsumerGroupDescribeResponse, call.version, portion))
        yield
    group.members = cast(Any, join_rows(portions))
    return group


def _topics(members: list[DescribedConsumerGroupMember]) -> set[str]:
    """What the assignments and targets of the members name."""
    parts = [part for member in members for part in (member.assignment, member.target_assignment)]
    return {row.topic_name for part in parts for row in part.topic_partitions}


def _may_see(server: Server, call: Call, name: str) -> bool:
    return server.is_authorized(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, name))
