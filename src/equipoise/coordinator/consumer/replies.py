"""Answers to ConsumerGroupHeartbeat. Rule A2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import Assigned, ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import by_topic
from equipoise.coordinator.consumer.states import MemberState
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_SHORTEST_INTERVAL_MS = 100


def heartbeat_answer(
    shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember, *, tells: bool
) -> ConsumerGroupHeartbeatResponse:
    """`tells`: with the whole assignment."""
    interval = group.presence_of(member.member_id).told_interval_ms = interval_of(shard, group, member)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=interval,
        assignment=assignment_of(member.assigned) if tells else None,
    )


def heartbeat_error(error: ErrorCode, message: str = "") -> ConsumerGroupHeartbeatResponse:
    """An error has no member id, no epoch and no interval. Rule A2."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message or None)


def interval_of(shard: Shard, group: ConsumerGroup, member: ConsumerGroupMember) -> int:
    """When the member is to come again: sooner while it waits for partitions, for a target, or for the topics of its
    regular expression. An addition.

    Rule A23.7.
    """
    interval = shard.settings_of(group.group_id).heartbeat_interval_ms
    shorter = shard.config.group_consumer_heartbeat_interval_reconciling_ms
    regex = member.subscribed_topic_regex
    is_waiting = (
        member.state is MemberState.UNRELEASED_PARTITIONS
        or group.group_epoch > group.target_epoch
        or (regex != "" and regex not in group.resolved)
    )
    return min(interval, max(shorter, _SHORTEST_INTERVAL_MS)) if shorter and is_waiting else interval


def hasten(
    shard: Shard, group: ConsumerGroup, member_id: str, answer: ConsumerGroupHeartbeatResponse, *, now: int
) -> None:
    """The hold of a heartbeat was ended by another request, in the first half of its interval: the next one is to come
    soon. An addition, at most once in half an interval.

    Java commits every 5 s by the same connection, as often as it sends heartbeats: just behind a commit a heartbeat can
    be held until the next commit. Rule A23.9.
    """
    presence, interval = group.presence_of(member_id), shard.settings_of(group.group_id).heartbeat_interval_ms
    shorter = shard.config.group_consumer_heartbeat_interval_reconciling_ms
    if shorter and now < presence.last_seen + interval // 2 and now >= presence.hastened_at + interval // 2:
        presence.hastened_at = now
        presence.told_interval_ms = min(interval, max(shorter, _SHORTEST_INTERVAL_MS))
        answer.heartbeat_interval_ms = presence.told_interval_ms


def assignment_of(assigned: Assigned) -> HeartbeatAssignment:
    """What a member may use now, never what it is to give up. Rule A2."""
    rows = [HeartbeatTopicPartitions(topic_id=topic_id, partitions=rows) for topic_id, rows in by_topic(assigned)]
    return HeartbeatAssignment(topic_partitions=rows)
