"""Records that an iteration has taken together and yields one by one. What is not yielded is not read yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import length_hint

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
        # Python's own iterators yield, and count: no line of ours runs for each record.
        self._left: list[ConsumerRecord | None] = list(records)  # None: dropped. Its length stays: it is counted in
        self._yielding = iter(self._left)
        self._finished = 0  # up to here the application has processed what was yielded
        self._dropped: set[TopicPartition] = set()

    @property
    def _at(self) -> int:
        """Of the next to yield."""
        return len(self._left) - length_hint(self._yielding)

    def __len__(self) -> int:
        """How many are left, with those that are dropped."""
        return length_hint(self._yielding)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yields what is left. Whoever has come to the end calls `finish`."""
        return filter(None, self._yielding)

    def take_rest(self) -> list[ConsumerRecord]:
        """All that are left, at once."""
        return list(self)

    def drop(self, partition: TopicPartition) -> None:
        """Nothing more of this partition is yielded: it has another position, or another owner."""
        self._dropped.add(partition)
        numbers = self._numbers.get(partition, [])
        for number in numbers[bisect_left(numbers, self._at) :]:
            self._left[number] = None

    # -- where the application stands

    @property
    def at_work(self) -> ConsumerRecord | None:
        """The record that the application has, if it has not asked for the next."""
        at = self._at
        return self._records[at - 1] if at > self._finished else None

    def finish(self) -> None:
        """The record at work is processed."""
        self._finished = self._at

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
