"""OffsetFetch (9): one group up to v7, several from v8 on. With `require_stable` it waits for pending commits
(KIP-447)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import loaded_shard
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_BATCHED = 8
_FIRST_WITH_MEMBERS = 9
_FIRST_VERSION_WITH_IDS = 10
_FIRST_WITH_GROUP_ERROR = 2


def handle(server: Server, request: OffsetFetchRequest, call: Call) -> None:
    """Answers for each group; with `require_stable` behind its commits (KafkaApis.handleOffsetFetchRequest)."""
    fetch = partial(_fetch, server, call=call, require_stable=request.require_stable)
    if call.version < _FIRST_BATCHED:
        asked = [OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)]
    else:
        asked = _each_once(request.groups)

    def answer() -> None:
        if call.version < _FIRST_BATCHED:
            one = fetch(asked[0])
            call.reply(OffsetFetchResponse(topics=one.topics, error_code=one.error_code))
        else:
            server.turns.encode_each(call, asked, fetch, lambda rows: OffsetFetchResponse(groups=rows))

    if request.require_stable:
        _behind_writes({server.group_coordinator.shard_for(call, group.group_id) for group in asked}, answer)
    else:
        answer()


def _each_once(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """A group whose offsets are all asked for is answered once: a small request could ask a thousand times for a large
    group."""
    return list({(one.group_id, one.topics is None or number): one for number, one in enumerate(groups)}.values())


def _behind_writes(shards: set[GroupShard], answer: Callable[[], None]) -> None:
    left = len(shards)

    def is_written() -> None:
        nonlocal left
        left -= 1
        if not left:
            answer()

    for shard in shards:
        shard.after_writes(is_written)
    if not shards:
        answer()


def _fetch(
    server: Server, asked: OffsetFetchRequestGroup, call: Call, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    try:
        shard = loaded_shard(server, call, AclOperation.DESCRIBE, asked.group_id).core
        if call.version >= _FIRST_WITH_MEMBERS:
            shard.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
        topics = _by_name(server, asked.topics, call) if asked.topics is not None else None
    except KafkaError as error:
        rows = _errors(asked.topics or [], error.code) if call.version < _FIRST_WITH_GROUP_ERROR else []
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=rows, error_code=error.code)
    found = shard.fetch_offsets(asked.group_id, topics, require_stable=require_stable)
    if not server.allows_all:
        found = _without_the_denied(server, found, call, is_all=topics is None)
    if call.version >= _FIRST_VERSION_WITH_IDS:
        found = _with_ids(server, found, asked.topics)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=found)


def _without_the_denied(
    server: Server, found: list[OffsetFetchResponseTopic], call: Call, *, is_all: bool
) -> list[OffsetFetchResponseTopic]:
    """Topics that the caller may not describe are an error if asked for, and left out of "all"."""
    answers = []
    for topic in found:
        resource = Resource(ResourceType.TOPIC, topic.name)
        is_unknown = not topic.name  # an id that nobody has
        if not is_unknown and not server.is_authorized(call, AclOperation.DESCRIBE, resource, quiet=is_all):
            if is_all:
                continue
            denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.partitions = [_failed(row.partition_index, denied) for row in topic.partitions]
        answers.append(topic)
    return answers


def _by_name(server: Server, topics: list[OffsetFetchRequestTopic], call: Call) -> list[OffsetFetchRequestTopic]:
    """Resolves topic ids to names; an unknown id has none."""
    if call.version >= _FIRST_VERSION_WITH_IDS:
        for topic in topics:
            topic.name = server.topics.name_of(topic.topic_id) or ""
    return topics


def _with_ids(
    server: Server, found: list[OffsetFetchResponseTopic], asked: list[OffsetFetchRequestTopic] | None
) -> list[OffsetFetchResponseTopic]:
    """From v10 on topics are named by id: unknown ones are an error if asked for, and left out of "all"."""
    answers = []
    for topic in found:
        known = server.topics.get(topic.name)
        if known is not None:
            topic.topic_id = known.topic_id
        elif asked is None:
            continue
        else:
            for row in topic.partitions:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        answers.append(topic)
    return answers


def _errors(topics: list[OffsetFetchRequestTopic], error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """In v1 the group's error has no other place than every partition."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[_failed(index, error) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _failed(index: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=error)
