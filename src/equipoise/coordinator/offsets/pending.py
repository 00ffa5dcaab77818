"""Offsets that were committed within transactions which are not over yet (KIP-98, KIP-447).

They count for nobody. With the COMMIT marker of their producer they become the committed offsets, with ABORT they go.
Until then the partitions are unstable for who asks for stable offsets. The order of records decides between commits: a
pending offset that a later record has overtaken has no effect any more, but its partition stays unstable. Kafka:
OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equipoise.coordinator.offsets.committed import CommittedOffset

Place = tuple[str, str, int]  # group, topic, partition


class _Pending(NamedTuple):
    number: int  # its place among the pending ones, in the order of their records
    offset: CommittedOffset | None  # None: a later record counts


@dataclass(slots=True)
class PendingOffsets:
    """By producer, and the producers by partition. Changed only by applying records."""

    _by_producer: dict[int, dict[Place, _Pending]] = field(default_factory=dict)
    _open: dict[str, dict[tuple[str, int], set[int]]] = field(default_factory=dict)  # producers by group and partition
    _last: int = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, place: Place, offset: CommittedOffset) -> None:
        """A record of a transaction. Rule T.68. Kafka: OffsetMetadataManager.replay."""
        self._last += 1
        self._by_producer.setdefault(producer_id, {})[place] = _Pending(self._last, offset)
        self._open.setdefault(place[0], {}).setdefault(place[1:], set()).add(producer_id)

    def end(self, producer_id: int, *, commit: bool) -> Iterator[tuple[Place, CommittedOffset]]:
        """The transaction is over. Yields the offsets that are committed by that. Rule T.69.

        Kafka: OffsetMetadataManager.replayEndTransactionMarker.
        """
        for place, (number, offset) in self._by_producer.pop(producer_id, {}).items():
            self._close(producer_id, place)
            if commit and offset is not None:
                self._overtake(place, number)
                yield place, offset

    def overtaken(self, place: Place) -> None:
        """A commit outside of transactions counts from now on."""
        self._overtake(place, self._last + 1)

    def _overtake(self, place: Place, number: int) -> None:
        for other in self._open.get(place[0], {}).get(place[1:], ()):
            pending = self._by_producer[other]
            if pending[place].number < number:
                pending[place] = pending[place]._replace(offset=None)

    def forget(self, place: Place) -> None:
        """A tombstone takes the offsets of all producers away. Rule T.71."""
        for producer_id in list(self._open.get(place[0], {}).get(place[1:], ())):
            pending = self._by_producer[producer_id]
            del pending[place]
            if not pending:
                del self._by_producer[producer_id]
            self._close(producer_id, place)

    def _close(self, producer_id: int, place: Place) -> None:
        partitions = self._open[place[0]]
        producers = partitions[place[1:]]
        producers.discard(producer_id)
        if not producers:
            del partitions[place[1:]]
        if not partitions:
            del self._open[place[0]]

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an offset of the partition is pending. Rule T.70.

        Kafka: OffsetMetadataManager.hasPendingTransactionalOffsets.
        """
        return (topic, partition) in self._open.get(group_id, ())

    def of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """The partitions of a group with pending offsets."""
        return iter(self._open.get(group_id, ()))

    def of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """The groups and partitions of a topic with pending offsets."""
        for group_id, partitions in self._open.items():
            for name, partition in partitions:
                if name == topic:
                    yield group_id, partition
