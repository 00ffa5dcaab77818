"""Partitions by topic id, as heartbeats have them, and assignments with a local epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from equipoise.member.partitions import Owned, TopicPartition
from equipoise.wire.apis.k68_consumer_group_heartbeat import HeartbeatTopicPartitions


class TopicIdPartition(NamedTuple):
    """One partition of one topic, whose name may not be known."""

    topic_id: bytes
    partition: int


ById = frozenset[TopicIdPartition]
NO_PARTITIONS: ById = frozenset()


class LocalAssignment(NamedTuple):
    """A set of partitions, and the number of the target that it comes from: two equal sets of different targets are
    different assignments (rule B4.1, AbstractMembershipManager.LocalAssignment)."""

    local_epoch: int
    partitions: ById

    def followed_by(self, partitions: ById) -> LocalAssignment:
        """The next target: another one only if the partitions differ."""
        if self != NONE and partitions == self.partitions:
            return self
        return LocalAssignment(self.local_epoch + 1, partitions)


NONE = LocalAssignment(-1, NO_PARTITIONS)


def received(rows: Iterable[HeartbeatTopicPartitions]) -> ById:
    """The partitions of an answer. Repeated and negative ones mean nothing."""
    return frozenset(TopicIdPartition(row.topic_id, number) for row in rows for number in row.partitions if number >= 0)


def rows(partitions: ById) -> list[HeartbeatTopicPartitions]:
    """Partitions as a heartbeat lists them."""
    found: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        found.setdefault(topic_id, []).append(number)
    return [HeartbeatTopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in found.items()]


def named(partitions: Iterable[TopicIdPartition], names: Mapping[bytes, str]) -> Owned:
    """The same by name; all of them must have one."""
    return frozenset(TopicPartition(names[topic_id], number) for topic_id, number in partitions)
