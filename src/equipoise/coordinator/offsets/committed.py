"""The committed offsets of a shard's groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitKey, OffsetCommitValue


class CommittedOffset(NamedTuple):
    """One offset as its record has it."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int  # wall time
    expire_timestamp: int  # wall time; -1: none of its own
    topic_id: bytes


@dataclass(slots=True)
class CommittedOffsets:
    """By group, topic and partition. Changed only by applying records."""

    commits_under_way: dict[str, int] = field(default_factory=dict)  # of a group: until durable, none may expire
    _groups: dict[str, dict[str, dict[int, CommittedOffset]]] = field(default_factory=dict)

    def commit_begins(self, group_id: str) -> None:
        """A commit is on its way to the log."""
        self.commits_under_way[group_id] = self.commits_under_way.get(group_id, 0) + 1

    def commit_ends(self, group_id: str) -> None:
        """It is durable, or has failed."""
        left = self.commits_under_way.pop(group_id) - 1
        if left:
            self.commits_under_way[group_id] = left

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """A durable record takes effect; None is a tombstone. Kafka: OffsetMetadataManager.replay."""
        if value is None:
            self._remove(key)
            return
        try:
            partitions = self._groups[key.group][key.topic]
        except KeyError:
            partitions = self._groups.setdefault(key.group, {}).setdefault(key.topic, {})
        partitions[key.partition] = CommittedOffset(
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
        """The offset of a partition, if there is one."""
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets of a group, by topic and partition."""
        return self._groups.get(group_id, {})

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All offsets of a group."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All offsets for a topic, with their groups."""
        for group_id, topics in self._groups.items():
            for partition, committed in topics.get(topic, {}).items():
                yield group_id, partition, committed


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The record that takes an offset away."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
