"""TxnOffsetCommit: offsets of a group that take effect with a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.offsets import check_commit
from equipoise.coordinator.offsets.commit import commit_records, note_refused, txn_commit_response
from equipoise.coordinator.outcomes import OffsetsCommitted
from equipoise.coordinator.step import Caller, Producer, Step, Write
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitRequest
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_ANY_VERSION = 32767  # of OffsetCommit: this API asks for no version of a `consumer` group's member


def commit_transactional_offsets(
    shard: Shard, request: TxnOffsetCommitRequest, caller: Caller, now: int, *, topic_ids: Mapping[str, bytes]
) -> Step:
    """The coordinator of the transaction has agreed. Partitions that do not exist were taken out before.

    Rules T.65 and T.67. Kafka: OffsetMetadataManager.commitTransactionalOffset.
    """
    step, plain = Step(now), _as_commit(request)
    try:
        _validate(shard, plain, topic_ids, now)
    except KafkaError as refused:
        note_refused(shard, plain, caller, step, code=refused.code)
        step.reply(caller, txn_commit_response(request, refused.code))
        return step
    records, too_large = commit_records(shard, plain, shard.wall_time(now), {})
    if not records:
        step.reply(caller, txn_commit_response(request, ErrorCode.NONE, too_large))
        return step
    shard.offsets.commit_begins(request.group_id)
    outcome = OffsetsCommitted(request, too_large, caller)
    step.writes.append(Write(records, outcome, producer=Producer(request.producer_id, request.producer_epoch)))
    return step


def _as_commit(request: TxnOffsetCommitRequest) -> OffsetCommitRequest:
    """The same offsets as a plain commit, whose rules hold here too."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=row.partition_index,
                    committed_offset=row.committed_offset,
                    committed_leader_epoch=row.committed_leader_epoch,
                    committed_metadata=row.committed_metadata,
                )
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def _validate(shard: Shard, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], now: int) -> None:
    """Older clients name no member: they are believed (KIP-447). A rebalance in progress does not matter, and a commit
    is no heartbeat. Raises KafkaError.

    Rules T.65 and T.74. Kafka: OffsetMetadataManager.validateTransactionalOffsetCommit.
    """
    generation_id, group = request.generation_id_or_member_epoch, shard.find(request.group_id)
    if group is None:
        if generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        shard.create_group(request.group_id, now)
        return
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return
    if isinstance(group, ConsumerGroup):
        _validate_in_consumer_group(group, request, topic_ids)
    elif generation_id >= 0 or group.state is not State.EMPTY:
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(generation_id, member)


def _validate_in_consumer_group(
    group: ConsumerGroup, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes]
) -> None:
    """Producers know generations only: of an old epoch they hear as of an old generation."""
    try:
        check_commit(group, request, _ANY_VERSION, topic_ids)
    except KafkaError as error:
        is_stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if is_stale else error.code, error.message) from None
