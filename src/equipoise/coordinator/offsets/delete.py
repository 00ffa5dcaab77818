"""OffsetDelete, and the offsets of deleted topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.offsets.committed import tombstone
from equipoise.coordinator.step import Caller, Step, Write
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def delete_offsets(
    shard: Shard, request: OffsetDeleteRequest, caller: Caller, step: Step, *, under_way: Iterable[tuple[str, int]] = ()
) -> None:
    """Topics that the group is subscribed to keep their offsets (KIP-496). Offsets that are not yet durable go too:
    they are in the log before the tombstones.

    Rule 4.4. Kafka: OffsetMetadataManager.deleteOffsets.
    """
    group = shard.find(request.group_id)
    error = _error(group)
    if group is None or error is not ErrorCode.NONE:
        step.reply(caller, OffsetDeleteResponse(error_code=error))
        return
    records, topics, to_come = list[CoordinatorRecord](), [], frozenset(under_way)
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        topics.append(_row(topic, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE))
        if not subscribed:
            asked = [row.partition_index for row in topic.partitions]
            known = {*shard.offsets.known(group.group_id, topic.name, asked)}
            known.update(index for index in asked if (topic.name, index) in to_come)
            records += [tombstone(group.group_id, topic.name, index) for index in sorted(known)]
    if records:
        step.write(records)
    step.reply_when_written(caller, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics))


def _row(topic: OffsetDeleteRequestTopic, error: ErrorCode) -> OffsetDeleteResponseTopic:
    rows = [
        OffsetDeleteResponsePartition(partition_index=row.partition_index, error_code=error) for row in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=rows)


def _error(group: Group | ConsumerGroup | None) -> ErrorCode:
    """The topics of members that are no consumers are unknown; the state of a `consumer` group does not count.

    Rules 4.4 and A17.10. Kafka: ClassicGroup.validateOffsetDelete, ConsumerGroup.validateOffsetDelete.
    """
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty and group.protocol_type != PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def topic_deleted(
    shard: Shard, topic: str, topic_id: bytes, step: Step, *, under_way: Iterable[tuple[str, int]] = ()
) -> None:
    """Offsets of a deleted topic go at once, in every group; those of an older topic of that name too, and those of
    `under_way`, which are not yet durable: groups and partitions. No number of them is too large for the log: the
    tombstones need not go in one batch.

    Rule 4.6. Kafka: OffsetMetadataManager.onTopicsDeleted.
    """
    places = {
        (group_id, partition): None
        for group_id, partition, committed in shard.offsets.of_topic(topic)
        if committed.topic_id in (topic_id, ZERO_UUID)
    }
    places |= {
        (group_id, partition): None
        for group_id, partition in shard.offsets.pending.of_topic(topic)
        if shard.offsets.get(group_id, topic, partition) is None
    }
    places |= dict.fromkeys(under_way)
    if places:
        records = [tombstone(group_id, topic, partition) for group_id, partition in places]
        step.writes.append(Write(records, is_atomic=False))
