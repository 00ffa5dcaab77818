"""OffsetDelete (47): offsets of topics that the group does not subscribe to."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.broker.handlers.collected_reply import CollectedReply
from equipoise.broker.handlers.committed_topics import sort_out
from equipoise.broker.handlers.groups import caller_of
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.coordinator.step import Caller

_NAME = attrgetter("name")


def handle(server: Server, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | None:
    """Answers for unknown partitions, and asks the group about the others (KafkaApis.handleOffsetDeleteRequest)."""
    shard = server.group_coordinator.shard_for(call, request.group_id)
    try:
        server.authorize(call, AclOperation.DELETE, Resource(ResourceType.GROUP, request.group_id))
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        if shard.core.unavailable is not ErrorCode.NONE:
            raise KafkaError(shard.core.unavailable)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    request.topics, refused, _ = sort_out(server, call, request.topics, key_of=_NAME, refuse=_refuse)
    caller = caller_of(call, CollectedReply(call, 1, lambda answers: _merged(refused, answers[0])))
    shard.after_writes(lambda: _delete(server, shard, request, caller))
    return None


def _delete(server: Server, shard: GroupShard, request: OffsetDeleteRequest, caller: Caller) -> None:
    """Behind the commits before the request, and with those that have begun meanwhile, or are late."""
    if shard.core.unavailable is not ErrorCode.NONE:  # it has moved meanwhile
        caller.token.reply(OffsetDeleteResponse(error_code=shard.core.unavailable))
        return
    under_way = shard.commits_under_way(request.group_id)
    shard.run(shard.core.delete_offsets(request, caller, server.clock.now(), under_way))


def _merged(refused: list[OffsetDeleteResponseTopic], answer: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Partitions that do not exist come first, as on Kafka; an error of the group stands alone."""
    if answer.error_code == ErrorCode.NONE:
        by_name = {topic.name: topic for topic in refused}
        for topic in answer.topics:
            if topic.name in by_name:
                by_name[topic.name].partitions += topic.partitions
            else:
                refused.append(topic)
        answer.topics = refused
    return answer


def _refuse(
    topic: OffsetDeleteRequestTopic, rows: Sequence[OffsetDeleteRequestPartition], error: ErrorCode
) -> OffsetDeleteResponseTopic:
    answers = [OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=error) for row in rows]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
