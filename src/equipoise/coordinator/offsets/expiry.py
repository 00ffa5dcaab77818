"""Expiry of offsets (KIP-211): the rule, and the sweep that applies it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from equipoise.coordinator.admin import forget
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.offsets.committed import CommittedOffset, tombstone
from equipoise.coordinator.step import Step, Write
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE
from equipoise.wire.offsets_records import CoordinatorRecord

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def sweep(shard: Shard, step: Step) -> None:
    """Offsets past their retention go, and with its last offset an Empty group. What is pending stays (rule T.72). No
    number of them is too large for the log: the tombstones need not go in one batch.

    Rule 4.6. Kafka: GroupCoordinatorShard.cleanupGroupMetadata.
    """
    under_way, wall_time = shard.offsets.commits_under_way, shard.wall_time(step.now)
    for group in [group for group in shard.all_groups() if group.group_id not in under_way]:
        records = _expired_offsets(shard, group, wall_time)
        left = sum(1 for _ in shard.offsets.of_group(group.group_id)) - len(records)
        if left == 0 and group.is_empty and not any(shard.offsets.pending.of_group(group.group_id)):
            forget(shard, group, records, step)
        elif records:
            step.writes.append(Write(records, is_atomic=False))


def _expired_offsets(shard: Shard, group: Group | ConsumerGroup, wall_time: WallTime) -> list[CoordinatorRecord]:
    """Tombstones for what a group need not remember any longer. Kafka: OffsetMetadataManager.cleanupExpiredOffsets."""
    since = _since(group)
    if since is _Since.NEVER:
        return []
    retention_ms = shard.config.offsets_retention_ms
    return [
        tombstone(group.group_id, topic, partition)
        for topic, partition, committed in shard.offsets.of_group(group.group_id)
        if not group.is_subscribed_to(topic)
        and wall_time >= _expires(committed, since, retention_ms)
        and not shard.offsets.pending.has(group.group_id, topic, partition)
    ]


class _Since(Enum):
    COMMIT = auto()
    NEVER = auto()


def _since(group: Group | ConsumerGroup) -> WallTime | _Since:
    """From when the retention of a group's offsets counts: a time, each offset's commit, or never (KIP-211).

    In a `consumer` group always by commit: what it subscribes to is known (rule A17.11).
    Kafka: ClassicGroup.offsetExpirationCondition, ConsumerGroup.offsetExpirationCondition.
    """
    if isinstance(group, ConsumerGroup):
        return _Since.COMMIT
    if group.protocol_type is None:  # only consumers that assign themselves have ever been here
        return _Since.COMMIT
    if group.state is State.EMPTY:
        return _Since.COMMIT if group.state_since is None else group.state_since
    if group.state is State.STABLE and group.protocol_type == PROTOCOL_TYPE and group.subscribed_topics is not None:
        return _Since.COMMIT
    return _Since.NEVER


def _expires(committed: CommittedOffset, since: WallTime | _Since, retention_ms: int) -> int:
    """A commit that came with a retention of its own keeps it. Kafka: OffsetExpirationConditionImpl.isOffsetExpired."""
    if committed.expire_timestamp != -1:
        return committed.expire_timestamp
    return retention_ms + (committed.commit_timestamp if isinstance(since, _Since) else since)
