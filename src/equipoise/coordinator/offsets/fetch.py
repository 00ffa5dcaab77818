"""OffsetFetch."""

from __future__ import annotations

from equipoise.coordinator.offsets.committed import CommittedOffset, CommittedOffsets
from equipoise.wire.apis.k09_offset_fetch import (
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import ZERO_UUID


def fetch_offsets(
    offsets: CommittedOffsets,
    group_id: str,
    topics: list[OffsetFetchRequestTopic] | None,
    *,
    require_stable: bool = False,
) -> list[OffsetFetchResponseTopic]:
    """What is committed; offset -1 where nothing is. None asks for all there is.

    Rule 4.3. Kafka: OffsetMetadataManager.fetchOffsets and fetchAllOffsets.
    """
    if topics is None:
        found = [
            OffsetFetchResponseTopic(name=name, partitions=[_fetched(index, found) for index, found in rows.items()])
            for name, rows in offsets.topics(group_id).items()
        ]
    else:
        found = [
            OffsetFetchResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_look_up(offsets, group_id, topic, index) for index in topic.partition_indexes],
            )
            for topic in topics
        ]
    if require_stable and offsets.pending:
        _hide_unstable(offsets, group_id, found)
    return found


def _hide_unstable(offsets: CommittedOffsets, group_id: str, found: list[OffsetFetchResponseTopic]) -> None:
    """A transaction may change these offsets yet: the client asks again (KIP-447). Rule T.70."""
    for topic in found:
        topic.partitions = [
            OffsetFetchResponsePartition(
                partition_index=row.partition_index,
                committed_offset=-1,
                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
            )
            if offsets.pending.has(group_id, topic.name, row.partition_index)
            else row
            for row in topic.partitions
        ]


def _look_up(
    offsets: CommittedOffsets, group_id: str, topic: OffsetFetchRequestTopic, index: int
) -> OffsetFetchResponsePartition:
    """An offset committed for a topic of the same name that is gone is none (KIP-848)."""
    found = offsets.get(group_id, topic.name, index)
    if found is not None and ZERO_UUID not in (topic.topic_id, found.topic_id) and topic.topic_id != found.topic_id:
        found = None
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
