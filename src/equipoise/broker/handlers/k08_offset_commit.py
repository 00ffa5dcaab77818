"""OffsetCommit (8). The handler answers unknown partitions; the group decides on the rest.

If nothing is left, the group is not asked, as on Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from equipoise.broker.groups.repeated_commit import note_commit
from equipoise.broker.handlers.collected_reply import CollectedReply
from equipoise.broker.handlers.committed_topics import sort_out
from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.coordinator.offsets.commit import commit_response
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_VERSION_WITH_IDS = 10
_ID, _NAME = attrgetter("topic_id"), attrgetter("name")


def handle(server: Server, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | None:
    """Answers for unknown partitions, and asks the group about the others (KafkaApis.handleOffsetCommitRequest)."""
    try:
        authorize_group(server, call, request.group_id)
    except KafkaError as error:
        return commit_response(request, error.code)
    by_id = call.version >= _FIRST_VERSION_WITH_IDS
    request.topics, refused, known = sort_out(
        server,
        call,
        request.topics,
        key_of=_ID if by_id else _NAME,
        refuse=_refuse,
    )
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    shard = server.group_coordinator.shard_for(call, request.group_id)
    note_carrier(server, call, shard.core.find_noted(request.group_id, request.member_id))
    token = CollectedReply(call, 1, lambda answers: _merged(refused, answers[0])) if refused else call
    caller = caller_of(call, token)
    topic_ids = {topic.name: topic.topic_id for topic in known}
    shard.run(shard.core.commit_offsets(request, topic_ids, caller, call.now))
    if not refused:
        note_commit(call, request, known)
    return None


def _merged(refused: list[OffsetCommitResponseTopic], answer: OffsetCommitResponse) -> OffsetCommitResponse:
    """Partitions that were answered before the group was asked come first."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in answer.topics:
        known = by_topic.get((topic.name, topic.topic_id))
        if known is None:
            refused.append(topic)
        else:
            known.partitions += topic.partitions
    return OffsetCommitResponse(topics=refused)


def _refuse(
    topic: OffsetCommitRequestTopic, rows: Iterable[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error) for row in rows]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
