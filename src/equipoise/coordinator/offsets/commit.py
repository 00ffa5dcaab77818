"""OffsetCommit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.offsets import check_commit
from equipoise.coordinator.events import CommitRefused
from equipoise.coordinator.outcomes import CommitsWritten, OffsetsCommitted
from equipoise.coordinator.reasons import Refusal
from equipoise.coordinator.step import Caller, Step, Write, write_error
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.offsets_records import (
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_usual_value,
)
from equipoise.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from equipoise.coordinator.classic.group import ClassicGroupMember
    from equipoise.coordinator.shard import Shard

_GROUP_ID_NOT_FOUND_FROM = 9
_LONG_MAX = 2**63 - 1
_MOST_TOGETHER = 25  # records: what follows from a write is done in one go
_NONE, _STABLE = ErrorCode.NONE, State.STABLE
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE
NO_PARTITIONS: frozenset[tuple[str, int]] = frozenset()
_REFUSALS = {
    ErrorCode.UNKNOWN_MEMBER_ID: Refusal.UNKNOWN_MEMBER,
    ErrorCode.FENCED_INSTANCE_ID: Refusal.FENCED_INSTANCE,
    ErrorCode.ILLEGAL_GENERATION: Refusal.OLD_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS: Refusal.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND: Refusal.UNKNOWN_GROUP,
    ErrorCode.STALE_MEMBER_EPOCH: Refusal.OLD_GENERATION,
    ErrorCode.UNSUPPORTED_VERSION: Refusal.OLD_VERSION,
}


def commit_offsets(
    shard: Shard, request: OffsetCommitRequest, caller: Caller, step: Step, *, topic_ids: Mapping[str, bytes]
) -> None:
    """Partitions that do not exist were taken out before. Group errors are told partition by partition.

    Rules 4.1.3, 4.1.4 and 4.1.6. Kafka: OffsetMetadataManager.commitOffset.
    """
    if not _is_accepted(shard, request, caller, step, topic_ids=topic_ids):
        return
    records, too_large = commit_records(shard, request, shard.wall_time(step.now), topic_ids)
    if not records:
        step.reply(caller, commit_response(request, ErrorCode.NONE, too_large))
        return
    shard.offsets.commit_begins(request.group_id)
    step.write(records, OffsetsCommitted(request, too_large, caller))


def commit_again(
    shard: Shard, known: KnownCommit, offsets: Sequence[int], epochs: Sequence[int], *, caller: Caller, step: Step
) -> None:
    """As `commit_offsets`, of what `known_commit` has of a request like this: offsets and leader epochs are new."""
    if _is_accepted(shard, known.request, caller, step, topic_ids=known.topic_ids):
        write = begin_commits()
        _add(shard, write, known, offsets=zip(offsets, epochs, strict=True), caller=caller, now=step.now)
        step.writes.append(write)


def begin_commits() -> Write:
    """A write for commits that come together."""
    return Write([], CommitsWritten([]), encoded=[])


def takes_more(write: Write) -> bool:
    """Whether another commit may join those of the write."""
    return write.encoded is not None and len(write.encoded) < _MOST_TOGETHER


def find_committing(shard: Shard, request: OffsetCommitRequest) -> ClassicGroupMember | None:
    """Most commits are those of dynamic members of Stable groups, in their generation. `_validate` accepts them too, as
    heartbeats, and takes longer."""
    group = shard.groups.get(request.group_id)
    if group is None or group.state is not _STABLE or group.generation_id != request.generation_id_or_member_epoch:
        return None
    return group.members.get(request.member_id) if request.group_instance_id is None else None


def join_commits(
    shard: Shard,
    write: Write,
    member: ClassicGroupMember,
    known: KnownCommit,
    *,
    offsets: Iterable[tuple[int, int]],
    caller: Caller,
    now: int,
) -> None:
    """A commit of a member that `find_committing` has found joins those that `write` has already. What each commit
    would cost alone, a step, a write and an outcome, is most of what it costs."""
    shard.rebalancer.keep_alive(member, now)
    _add(shard, write, known, offsets=offsets, caller=caller, now=now)


def _add(
    shard: Shard, write: Write, known: KnownCommit, *, offsets: Iterable[tuple[int, int]], caller: Caller, now: int
) -> None:
    """`offsets`: those of the commit's partitions, and their leader epochs."""
    assert write.encoded is not None
    assert type(write.outcome) is CommitsWritten
    stamp = shard.wall_time(now)
    for (key, encoded_key, topic_id), (offset, epoch) in zip(known.rows, offsets, strict=True):
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=epoch,
            metadata="",
            commit_timestamp=stamp,
            expire_timestamp=-1,
            topic_id=topic_id,
        )
        write.records.append(CoordinatorRecord(key, value))
        write.encoded.append((encoded_key, encode_usual_value(offset, epoch, stamp, topic_id)))
    shard.offsets.commit_begins(known.request.group_id)
    write.outcome.commits.append((caller, known))


def known_commit(request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], response: Any) -> KnownCommit:
    """What is the same in every commit of these partitions by this member, in this generation, without metadata and
    without a retention of its own. `response`: the answer if all goes well, which may be bytes already."""
    group_id = request.group_id
    rows = list[tuple[OffsetCommitKey, bytes, bytes]]()
    for topic in request.topics:
        for row in topic.partitions:
            key = OffsetCommitKey(group=group_id, topic=topic.name, partition=row.partition_index)
            rows.append((key, encode_key(key), topic_ids[topic.name]))
    return KnownCommit(request, rows, topic_ids, response)


def offsets_committed(
    shard: Shard, outcome: OffsetsCommitted, error: ErrorCode, step: Step, *, is_lost: bool = True
) -> None:
    """The commit is durable and has taken effect, or has failed as a whole. One that may yet take effect is answered,
    and stays under way. Rules 4.1 and T.68.

    Kafka: GroupCoordinatorService.commitOffsets, GroupCoordinatorService.commitTransactionalOffsets.
    """
    request, too_large, caller = outcome
    if is_lost:
        shard.offsets.commit_ends(request.group_id)
    if error is not _NONE:
        too_large = NO_PARTITIONS
    if isinstance(request, TxnOffsetCommitRequest):
        step.reply(caller, txn_commit_response(request, write_error(error), too_large))
    else:
        step.reply(caller, commit_response(request, write_error(error), too_large))


def commits_written(
    shard: Shard, outcome: CommitsWritten, error: ErrorCode, step: Step, *, is_lost: bool = True
) -> None:
    """As `offsets_committed`, for each of several commits."""
    for caller, known in outcome.commits:
        if is_lost:
            shard.offsets.commit_ends(known.request.group_id)
        response = known.response if error is _NONE else commit_response(known.request, write_error(error))
        step.replies.append((caller, response))


def note_refused(
    shard: Shard,
    request: OffsetCommitRequest,
    caller: Caller,
    step: Step,
    *,
    code: ErrorCode,
    refusal: Refusal | None = None,
) -> None:
    """The event of a commit that the group has refused."""
    group = shard.find(request.group_id)
    event = CommitRefused(
        request.group_id,
        step.now,
        caller.who(request.member_id, request.group_instance_id),
        refusal or _REFUSALS[code],
        generation_id=request.generation_id_or_member_epoch,
        group_generation_id=group.generation_id if group is not None else -1,
    )
    step.note(event)


class KnownCommit(NamedTuple):
    """A commit that may come again with other offsets. `rows`: of each partition the key, the same as it is written,
    and the topic's id."""

    request: OffsetCommitRequest
    rows: list[tuple[OffsetCommitKey, bytes, bytes]]
    topic_ids: Mapping[str, bytes]
    response: Any  # if all goes well


class _Refused(Exception):
    def __init__(self, code: ErrorCode, refusal: Refusal | None = None) -> None:
        super().__init__(code.name)
        self.code = code
        self.refusal = refusal or _REFUSALS[code]


def _is_accepted(
    shard: Shard, request: OffsetCommitRequest, caller: Caller, step: Step, *, topic_ids: Mapping[str, bytes]
) -> bool:
    """Whether the group takes the commit; if not, the caller has its answer."""
    try:
        _validate(shard, request, caller, step.now, topic_ids=topic_ids)
    except _Refused as refused:
        note_refused(shard, request, caller, step, code=refused.code, refusal=refused.refusal)
        step.reply(caller, commit_response(request, refused.code))
        return False
    return True


def _validate(
    shard: Shard, request: OffsetCommitRequest, caller: Caller, now: int, *, topic_ids: Mapping[str, bytes]
) -> None:
    """The group's own rules, in Kafka's order. A commit that is accepted counts as a heartbeat.

    A held heartbeat may go on waiting: a client that commits on another connection does not wait for it.
    Kafka: OffsetMetadataManager.validateOffsetCommit, ClassicGroup.validateOffsetCommit.
    """
    generation_id = request.generation_id_or_member_epoch
    group = shard.find(request.group_id)
    if isinstance(group, ConsumerGroup):
        _validate_in_consumer_group(group, request, caller, topic_ids)
        return
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
            group.check_generation(generation_id, member)
            if group.state is State.COMPLETING_REBALANCE:
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    except KafkaError as error:
        raise _Refused(error.code) from None
    shard.rebalancer.keep_alive(member, now)


def _validate_in_consumer_group(
    group: ConsumerGroup, request: OffsetCommitRequest, caller: Caller, topic_ids: Mapping[str, bytes]
) -> None:
    """Rule A17."""
    try:
        check_commit(group, request, caller.version, topic_ids)
    except KafkaError as error:
        raise _Refused(error.code, None if request.member_id else Refusal.STANDALONE_IN_LIVE_GROUP) from None
    if request.member_id in group.members:
        group.presence_of(request.member_id).lost_at = None  # no sign of life for its session, but it is there


def _is_last_word(shard: Shard, group: Group, generation_id: int) -> bool:
    """Of the only member of a group nobody else can have the partitions, whatever its assignment will be; nor had
    anybody since the generation before, in which it may have sent this behind its JoinGroup. An addition.

    Kafka refuses its commit all the same, but rarely meets it: there a member hears of the rebalance with its next
    heartbeat. One whose heartbeat is held has rejoined within milliseconds after the last but one has closed; if it is
    closed then, its last offsets would be lost.
    """
    is_alone = group.state is State.COMPLETING_REBALANCE and len(group.members) == 1
    is_recent = group.generation_id - 1 <= generation_id <= group.generation_id
    return is_alone and is_recent and shard.config.group_heartbeat_hold_max_ms > 0


def commit_records(
    shard: Shard, request: OffsetCommitRequest, stamp: WallTime, topic_ids: Mapping[str, bytes]
) -> tuple[list[CoordinatorRecord], frozenset[tuple[str, int]]]:
    """A commit below v5 may bring a retention of its own (KIP-211). Kafka: OffsetMetadataManager.expireTimestampMs."""
    records, too_large = [], set()
    group_id = request.group_id
    expires = min(stamp + request.retention_time_ms, _LONG_MAX) if request.retention_time_ms != -1 else -1
    for topic in request.topics:
        topic_id = topic_ids.get(topic.name, ZERO_UUID)
        for row in topic.partitions:
            metadata = row.committed_metadata
            if metadata and _utf16_length(metadata) > shard.config.offset_metadata_max_bytes:
                too_large.add((topic.name, row.partition_index))
                continue
            key = OffsetCommitKey(group=group_id, topic=topic.name, partition=row.partition_index)
            value = OffsetCommitValue(
                offset=row.committed_offset,
                leader_epoch=row.committed_leader_epoch,
                metadata=metadata or "",
                commit_timestamp=stamp,
                expire_timestamp=expires,
                topic_id=topic_id,
            )
            records.append(CoordinatorRecord(key, value))
    return records, frozenset(too_large) if too_large else NO_PARTITIONS


def _utf16_length(text: str) -> int:
    """Java's String.length(), which is what Kafka compares with a limit that says bytes.

    Kafka: OffsetMetadataManager.isMetadataInvalid.
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def commit_response(
    request: OffsetCommitRequest, error: ErrorCode, too_large: frozenset[tuple[str, int]] = NO_PARTITIONS
) -> OffsetCommitResponse:
    """The same error for every partition, but for those whose metadata is too large. Rule 4.1."""
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
                row.error_code = _TOO_LARGE
    return OffsetCommitResponse(topics=topics)


def txn_commit_response(
    request: TxnOffsetCommitRequest, error: ErrorCode, too_large: frozenset[tuple[str, int]] = NO_PARTITIONS
) -> TxnOffsetCommitResponse:
    """The same for a commit within a transaction. Rule T.65."""
    answer = TxnOffsetCommitResponse(topics=[])
    for topic in request.topics:
        numbers = [row.partition_index for row in topic.partitions]
        codes = [_TOO_LARGE if (topic.name, number) in too_large else error for number in numbers]
        rows = map(_txn_row, numbers, codes)
        answer.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=list(rows)))
    return answer


def _txn_row(number: int, code: ErrorCode) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
