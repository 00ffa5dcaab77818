"""The committed offsets of a shard's groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.coordinator.offsets.pending import PendingOffsets
from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitKey, OffsetCommitValue

NO_PRODUCER_ID = -1


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
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    _groups: dict[str, dict[str, dict[int, CommittedOffset]]] = field(default_factory=dict)

    def commit_begins(self, group_id: str) -> None:
        """A commit is on its way to the log."""
        self.commits_under_way[group_id] = self.commits_under_way.get(group_id, 0) + 1

    def commit_ends(self, group_id: str) -> None:
        """It is durable, or has failed."""
        left = self.commits_under_way.pop(group_id) - 1
        if left:
            self.commits_under_way[group_id] = left

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """A durable record takes effect, that of a producer within its transaction; None is a tombstone. Kafka:
        OffsetMetadataManager.replay."""
        if value is None:
            self._remove(key)
            self.pending.forget((key.group, key.topic, key.partition))
            return
        found = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        if producer_id >= 0:
            self.pending.add(producer_id, (key.group, key.topic, key.partition), found)
            return
        self._put(key.group, key.topic, key.partition, found)
        if self.pending:
            self.pending.overtaken((key.group, key.topic, key.partition))

    def _put(self, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        try:
            partitions = self._groups[group][topic]
        except KeyError:
            partitions = self._groups.setdefault(group, {}).setdefault(topic, {})
        partitions[partition] = offset

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker takes effect: what is pending of the producer counts from now on, or goes. Rule T.69.

        Kafka: OffsetMetadataManager.replayEndTransactionMarker.
        """
        for place, offset in self.pending.end(producer_id, commit=commit):
            self._put(*place, offset)

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

    def known(self, group_id: str, topic: str, partitions: Iterable[int]) -> list[int]:
        """Those of the partitions that have an offset, committed or pending. Rule T.71."""
        committed, pending = self._groups.get(group_id, {}).get(topic, {}), self.pending
        if not pending:
            return [one for one in partitions if one in committed]
        return [one for one in partitions if one in committed or pending.has(group_id, topic, one)]

    def tombstones(self, group_id: str, under_way: Iterable[tuple[str, int]] = ()) -> list[CoordinatorRecord]:
        """The records that take all offsets of a group away, pending ones too (rule T.71), and those whose commits are
        on their way to the log, before these. Kafka: OffsetMetadataManager.deleteAllOffsets."""
        places = {(topic, partition): None for topic, partition, _ in self.of_group(group_id)}
        places |= dict.fromkeys(self.pending.of_group(group_id))
        places |= dict.fromkeys(under_way)
        return [tombstone(group_id, *place) for place in places]

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
