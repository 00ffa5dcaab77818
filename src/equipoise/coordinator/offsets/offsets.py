"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and when offsets are forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import CommitRefused
from equipoise.coordinator.outcomes import OffsetsCommitted
from equipoise.coordinator.reasons import Refusal
from equipoise.coordinator.step import Caller, Step, write_error
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.offsets_records import OffsetCommitKey, OffsetCommitValue, Record
from equipoise.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_GROUP_ID_NOT_FOUND_FROM = 9
_LONG_MAX = 2**63 - 1
NOTHING: frozenset[tuple[str, int]] = frozenset()
_REFUSALS = {
    ErrorCode.UNKNOWN_MEMBER_ID: Refusal.UNKNOWN_MEMBER,
    ErrorCode.FENCED_INSTANCE_ID: Refusal.FENCED_INSTANCE,
    ErrorCode.ILLEGAL_GENERATION: Refusal.OLD_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS: Refusal.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND: Refusal.UNKNOWN_GROUP,
}


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes


class Offsets:
    """By group, topic and partition. Changed only by applying records."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self.commits_under_way: dict[str, int] = {}  # of a group, not yet durable: no offset of it may expire

    def commit_begins(self, group_id: str) -> None:
        self.commits_under_way[group_id] = self.commits_under_way.get(group_id, 0) + 1

    def commit_ends(self, group_id: str) -> None:
        left = self.commits_under_way.pop(group_id) - 1
        if left:
            self.commits_under_way[group_id] = left

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is None:
            self._remove(key)
            return
        topics = self._groups.setdefault(key.group, {})
        topics.setdefault(key.topic, {})[key.partition] = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )

    def partitions(self, group_id: str, topic: str) -> dict[int, CommittedOffset]:
        """For the loader, which fills it in."""
        return self._groups[group_id][topic]

    def _remove(self, key: OffsetCommitKey) -> None:
        topics = self._groups.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._groups.pop(key.group, None)

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for group_id, topics in self._groups.items():
            for partition, committed in topics.get(topic, {}).items():
                yield group_id, partition, committed


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


# -- OffsetCommit


def commit_offsets(
    shard: Shard, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], caller: Caller, now: int, step: Step
) -> None:
    """Partitions that do not exist were taken out before. Group errors are told partition by partition."""
    try:
        _validate(shard, request, caller, now)
    except _Refused as refused:
        step.events.append(_refused_event(shard, request, caller, refused.refusal, now))
        step.reply(caller, commit_response(request, refused.code))
        return
    records, too_large = _records(shard, request, topic_ids, now)
    if not records:
        step.reply(caller, commit_response(request, ErrorCode.NONE, too_large))
        return
    shard.offsets.commit_begins(request.group_id)
    step.write(records, OffsetsCommitted(request, too_large, caller))


def offsets_committed(shard: Shard, outcome: OffsetsCommitted, error: ErrorCode, step: Step) -> None:
    request, too_large, caller = outcome
    shard.offsets.commit_ends(request.group_id)
    step.reply(caller, commit_response(request, write_error(error), too_large if error is ErrorCode.NONE else NOTHING))


class _Refused(Exception):
    def __init__(self, code: ErrorCode, refusal: Refusal | None = None) -> None:
        super().__init__(code.name)
        self.code = code
        self.refusal = refusal or _REFUSALS[code]


def _refused_event(
    shard: Shard, request: OffsetCommitRequest, caller: Caller, refusal: Refusal, now: int
) -> CommitRefused:
    group = shard.groups.get(request.group_id)
    who = caller.who(request.member_id, request.group_instance_id)
    known = group.generation_id if group is not None else -1
    return CommitRefused(request.group_id, now, who, refusal, request.generation_id_or_member_epoch, known)


def _validate(shard: Shard, request: OffsetCommitRequest, caller: Caller, now: int) -> None:
    """The group's own rules, in Kafka's order. A commit that is accepted counts as a heartbeat; one that is held may
    go on waiting, for a client that commits on another connection does not wait for it."""
    generation_id = request.generation_id_or_member_epoch
    group = shard.groups.get(request.group_id)
    if group is None:
        if generation_id >= 0:
            is_new = caller.version >= _GROUP_ID_NOT_FOUND_FROM
            raise _Refused(
                ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION, Refusal.UNKNOWN_GROUP
            )
        shard.create_group(request.group_id, now)
        return
    if generation_id < 0 and group.state is State.EMPTY:
        return
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        raise _Refused(ErrorCode.UNKNOWN_MEMBER_ID, Refusal.STANDALONE_IN_LIVE_GROUP)
    try:
        member = group.check_member(request.member_id, request.group_instance_id)
        if not _is_last_word(shard, group, generation_id):
            group.check_generation(generation_id)
            if group.state is State.COMPLETING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    except KafkaError as error:
        raise _Refused(error.code) from None
    shard.rebalancer.keep_alive(member, now)


def _is_last_word(shard: Shard, group: Group, generation_id: int) -> bool:
    """Of the only member of a group nobody else can have the partitions, whatever its assignment will be; nor had
    anybody since the generation before, in which it may have sent this behind its JoinGroup.

    Kafka refuses its commit all the same, but rarely meets it: there a member hears of the rebalance with its next
    heartbeat. One whose heartbeat is held has rejoined within milliseconds after the last but one has closed; if it is
    closed then, its last offsets would be lost.
    """
    is_alone = group.state is State.COMPLETING_REBALANCE and len(group.members) == 1
    is_recent = group.generation_id - 1 <= generation_id <= group.generation_id
    return is_alone and is_recent and shard.config.group_heartbeat_hold_max_ms > 0


def _records(
    shard: Shard, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], now: int
) -> tuple[list[Record], frozenset[tuple[str, int]]]:
    records, too_large = [], set()
    stamp = shard.wall_time(now)
    expires = min(stamp + request.retention_time_ms, _LONG_MAX) if request.retention_time_ms != -1 else -1
    for topic in request.topics:
        topic_id = topic_ids.get(topic.name, ZERO_UUID)
        for row in topic.partitions:
            metadata = row.committed_metadata
            if metadata and _utf16_length(metadata) > shard.config.offset_metadata_max_bytes:
                too_large.add((topic.name, row.partition_index))
                continue
            key = OffsetCommitKey(group=request.group_id, topic=topic.name, partition=row.partition_index)
            records.append(Record(key, _value(row, stamp, expires, topic_id)))
    return records, frozenset(too_large) if too_large else NOTHING


def _value(row: OffsetCommitRequestPartition, stamp: int, expires: int, topic_id: bytes) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=row.committed_offset,
        leader_epoch=row.committed_leader_epoch,
        metadata=row.committed_metadata or "",
        commit_timestamp=stamp,
        expire_timestamp=expires,
        topic_id=topic_id,
    )


def _utf16_length(text: str) -> int:
    """Java's String.length(), which is what Kafka compares with a limit that says bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def commit_response(
    request: OffsetCommitRequest, error: ErrorCode, too_large: frozenset[tuple[str, int]] = NOTHING
) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    for one in topics if too_large else ():
        for row in one.partitions:
            if (one.name, row.partition_index) in too_large:
                row.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return OffsetCommitResponse(topics=topics)


# -- OffsetFetch


def fetch_offsets(
    shard: Shard, group_id: str, topics: list[OffsetFetchRequestTopic] | None
) -> list[OffsetFetchResponseTopic]:
    """What is committed; offset -1 where nothing is. None asks for all there is."""
    if topics is None:
        return [
            OffsetFetchResponseTopic(name=name, partitions=[_fetched(index, found) for index, found in rows.items()])
            for name, rows in shard.offsets.topics(group_id).items()
        ]
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_look_up(shard, group_id, topic, index) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _look_up(shard: Shard, group_id: str, topic: OffsetFetchRequestTopic, index: int) -> OffsetFetchResponsePartition:
    found = shard.offsets.get(group_id, topic.name, index)
    if found is not None and ZERO_UUID not in (topic.topic_id, found.topic_id) and topic.topic_id != found.topic_id:
        found = None  # committed for a topic of the same name that is gone
    return _fetched(index, found)


def _fetched(index: int, found: CommittedOffset | None) -> OffsetFetchResponsePartition:
    if found is None:
        return OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=ErrorCode.NONE)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=ErrorCode.NONE,
    )


# -- OffsetDelete


def delete_offsets(shard: Shard, request: OffsetDeleteRequest, caller: Caller, now: int, step: Step) -> None:
    group = shard.groups.get(request.group_id)
    error = _offset_delete_error(group)
    if group is None or error is not ErrorCode.NONE:
        step.reply(caller, OffsetDeleteResponse(error_code=error))
        return
    records, topics = [], []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        rows = [
            OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=code)
            for row in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
        if not subscribed:
            records += [
                tombstone(group.group_id, topic.name, row.partition_index)
                for row in topic.partitions
                if shard.offsets.get(group.group_id, topic.name, row.partition_index) is not None
            ]
    response = OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)
    if records:
        step.write(records)
    step.reply_when_written(caller, response)


def _offset_delete_error(group: Group | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not State.EMPTY and group.protocol_type != PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


# -- expiry


def expired_offsets(shard: Shard, group: Group, wall_time: int) -> list[Record]:
    """Tombstones for what a group need not remember any longer."""
    base = _expiry_base(group)
    if base is _NEVER:
        return []
    retention = shard.config.offsets_retention_ms
    return [
        tombstone(group.group_id, topic, partition)
        for topic, partition, committed in shard.offsets.of_group(group.group_id)
        if not group.is_subscribed_to(topic) and _is_expired(committed, base, retention, wall_time)
    ]


_NEVER = -1
_SINCE_COMMIT = -2


def _expiry_base(group: Group) -> int:
    """From when the retention of a group's offsets counts: a time, each offset's commit, or never."""
    if group.protocol_type is None:  # only consumers that assign themselves have ever been here
        return _SINCE_COMMIT
    if group.state is State.EMPTY:
        return _SINCE_COMMIT if group.state_since is None else group.state_since
    if group.state is State.STABLE and group.protocol_type == PROTOCOL_TYPE and group.subscribed_topics is not None:
        return _SINCE_COMMIT
    return _NEVER


def _is_expired(committed: CommittedOffset, base: int, retention: int, wall_time: int) -> bool:
    if committed.expire_timestamp != -1:
        return wall_time >= committed.expire_timestamp
    since = committed.commit_timestamp if base == _SINCE_COMMIT else base
    return wall_time - since >= retention
