"""Records that an iteration has taken together and yields one by one. What is not yielded is not read yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from equipoise.client.fetch.records import ConsumerRecord
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.member.commits import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition


class Hand:
    """The application's thread uses it; the loop's calls `drop` alone. `before`: positions before the records were
    taken, with the leader epochs that the records do not tell.

    An iteration that is left leaves the others here: the next poll or iteration begins with them."""

    def __init__(self, records: Sequence[ConsumerRecord], before: Mapping[TopicPartition, LogPosition]) -> None:
        self._records = records
        self._before = before
        self._at = 0  # of the next to yield
        self._is_at_work = False  # the application has the last that was yielded, and has not asked for the next
        self._dropped: set[TopicPartition] = set()  # never removed from `_records`: another thread counts in it

    def __len__(self) -> int:
        """How many are left, with those that are dropped."""
        return len(self._records) - self._at

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while self._at < len(self._records):
            record = self._records[self._at]
            self._at += 1
            if self._dropped and _place(record) in self._dropped:
                continue
            self._is_at_work = True
            yield record
            self._is_at_work = False

    def take_rest(self) -> list[ConsumerRecord]:
        """All that are left, at once."""
        at, self._at = self._at, len(self._records)
        return [record for record in self._records[at:] if _place(record) not in self._dropped]

    def drop(self, partition: TopicPartition) -> None:
        """Nothing more of this partition is yielded: it has another position, or another owner."""
        self._dropped.add(partition)

    # -- where the application stands

    @property
    def at_work(self) -> ConsumerRecord | None:
        """The record that the application has, if it has not asked for the next."""
        return self._records[self._at - 1] if self._is_at_work and self._at else None

    def finish(self) -> None:
        """The record at work is processed."""
        self._is_at_work = False

    def sought(self, partition: TopicPartition) -> None:
        """The application has set the position itself: the record at work says nothing of it any more."""
        self.drop(partition)
        if self.at_work is not None and _place(self.at_work) == partition:
            self.finish()

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """An application that commits behind the record at work has processed it."""
        record = self.at_work
        at = None if record is None else offsets.get(_place(record))
        if record is not None and at is not None and at.offset > record.offset:
            self.finish()

    def positions(self, *, processed: bool = False) -> dict[TopicPartition, LogPosition]:
        """Before the first record that is left, of each partition that has any; with `processed`, the record at work
        counts among these."""
        first = self._at - (processed and self.at_work is not None)
        found = {}
        for place, numbers in self._numbers.items():
            left = bisect_left(numbers, first)
            if left < len(numbers) and (numbers[left] < self._at or place not in self._dropped):
                found[place] = self._before_record(place, numbers, left)
        return found

    def _before_record(self, place: TopicPartition, numbers: list[int], left: int) -> LogPosition:
        if left:
            last = self._records[numbers[left - 1]]
            return LogPosition(last.offset + 1, last.leader_epoch)
        return self._before.get(place, LogPosition(self._records[numbers[left]].offset))

    @cached_property
    def _numbers(self) -> dict[TopicPartition, list[int]]:
        """Where the records of each partition are, counted once: an application may commit with each record."""
        found: dict[TopicPartition, list[int]] = {}
        for number, record in enumerate(self._records):
            found.setdefault(_place(record), []).append(number)
        return found


def _place(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
