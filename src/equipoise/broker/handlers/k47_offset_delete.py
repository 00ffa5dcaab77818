"""OffsetDelete (47): offsets of topics that the group does not subscribe to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import caller_of
from equipoise.broker.net.authorizer import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0"


class _Merged:
    """The token of a deletion of which some partitions do not exist: they come first, as on Kafka."""

    def __init__(self, call: Call, unknown: list[OffsetDeleteResponseTopic]) -> None:
        self._call = call
        self._unknown = unknown

    def reply(self, response: Message) -> None:
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code == ErrorCode.NONE:
            unknown = {topic.name: topic for topic in self._unknown}
            for topic in response.topics:
                if topic.name in unknown:
                    unknown[topic.name].partitions += topic.partitions
                else:
                    self._unknown.append(topic)
            response.topics = self._unknown
        self._call.reply(response)


def handle(server: Server, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | None:
    shard = server.groups.shard_of(request.group_id)
    try:
        server.authorize(call, AclOperation.DELETE, Resource(ResourceType.GROUP, request.group_id))
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        if shard.core.unavailable is not ErrorCode.NONE:
            raise KafkaError(shard.core.unavailable)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    caller = caller_of(call, _Merged(call, _take_unknown(server, request, call)))
    shard.after_writes(lambda: shard.run(shard.core.delete_offsets(request, caller, server.clock.now())))
    return None


def _take_unknown(server: Server, request: OffsetDeleteRequest, call: Call) -> list[OffsetDeleteResponseTopic]:
    """Takes what cannot be deleted out of the request, and answers it."""
    refused = []
    for topic in request.topics:
        kept, rows = [], []
        for row in topic.partitions:
            try:
                server.find_partition(call, AclOperation.READ, topic.name, row.partition_index)
                kept.append(row)
            except KafkaError as error:
                rows.append(OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=error.code))
        topic.partitions = kept
        if rows:
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    request.topics = [topic for topic in request.topics if topic.partitions]
    return refused
