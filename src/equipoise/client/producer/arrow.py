"""Builds record batches by partition from Arrow batches, without a Python object per row.

Arrays of row numbers put the rows in order of their partitions; the bytes are copied once, into the batches. Columns:
`value` and, if present, `key`, `headers`, `topic`, `partition`, `timestamp` (milliseconds).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from equipoise.client.producer.arrow_partitioner import ArrowStickyPartitioner, Ints, by_key
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.engine import ProducerTopic
from equipoise.member.partitions import TopicPartition
from equipoise.settings import LONG_MAX
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer
from equipoise.wire.records.build import check_timestamps
from equipoise.wire.records.columns import RecordColumns

_MOST_BYTES = 64_000_000  # at a time: Arrow counts the bytes of a column in 32 bits, and a table may be large
NameOfRow = Callable[[int], str]


class Target(Protocol):
    """Where the batches go."""

    config: ProducerConfig

    def topic(self, name: str, wanted: int = 1) -> ProducerTopic:
        """The topic's partitions. Metadata is asked for anew if the topic has fewer than `wanted`."""

    def add(self, partition: TopicPartition, header: BatchHeader, body: Buffer, label: str) -> object:
        """Takes a finished batch. `label` names its first record in errors."""


def name_of_row(row: int) -> str:
    """How errors name a row."""
    return f"row {row + 1}"


def pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Of a size that can be worked on at once."""
    if rows.nbytes <= _MOST_BYTES or rows.num_rows < 2:
        if rows.num_rows:
            yield rows
        return
    half = rows.num_rows // 2
    yield from pieces(rows.slice(0, half))
    yield from pieces(rows.slice(half))


class ArrowRows:
    """Rows on their way to a producer. What is wrong with one is a UsageError that names it. `takes_any_time`: also
    timestamps below 0, which records that are copied may have."""

    def __init__(
        self, target: Target, topic: str | None, name: NameOfRow = name_of_row, *, takes_any_time: bool = False
    ) -> None:
        self._target = target
        self._topic = topic
        self._named = name
        self._takes_any_time = takes_any_time
        self._sticky = ArrowStickyPartitioner()
        self.partitions: dict[str, int] = {}  # of the topics met so far
        self.rows = 0  # sent so far

    def send(self, rows: pa.RecordBatch) -> None:
        """Hands the rows of one batch to the producer."""
        columns = RecordColumns(_column(rows, "key"), rows.column("value"), _column(rows, "headers"))
        order, ends, targets = self._divide(rows, columns.sizes)
        built = columns.batches(order, ends, self._timestamps(rows), self._target.config.codec)
        for target, begin, (header, records) in zip(targets, [0, *ends[:-1]], built, strict=True):
            self._target.add(target, header, records, self._name(order[begin]))
        self.rows += rows.num_rows

    def _divide(self, rows: pa.RecordBatch, sizes: Ints) -> tuple[Ints, list[int], list[TopicPartition]]:
        """The rows in the order of their batches, where each batch ends, and its partition."""
        order: list[Ints] = []
        ends: list[int] = []
        targets: list[TopicPartition] = []
        for name, numbers in self._by_topic(rows):
            self._check_sizes(name, numbers, sizes)
            partitions = self._choose(name, rows, numbers, sizes)
            # Numbers of 16 bits or fewer are sorted in linear time.
            sorting = np.argsort(partitions.astype(np.min_scalar_type(partitions.max())), kind="stable")
            numbers, partitions = numbers[sorting], partitions[sorting]
            done = ends[-1] if ends else 0
            for begin, end in _cuts(partitions, sizes[numbers], self._target.topic(name).limit):
                targets.append(TopicPartition(name, int(partitions[begin])))
                ends.append(done + end)
            order.append(numbers)
        return np.concatenate(order), ends, targets

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Ints]]:
        """Each topic, and the numbers of its rows."""
        if self._topic is not None:
            yield self._topic, np.arange(rows.num_rows)
            return
        column = _column(rows, "topic")
        if column is None:
            raise UsageError("no topic is given: name it, or give a column topic")
        if column.null_count:
            first = np.flatnonzero(column.is_null())[0]
            raise UsageError(f"{self._name(first)} has null as its topic: fill the column, or set the option topic")
        topics = column.dictionary_encode()
        indices = topics.indices.to_numpy()
        for index, topic in enumerate(topics.dictionary.to_pylist()):
            yield topic, np.flatnonzero(indices == index)

    def _check_sizes(self, topic: str, numbers: Ints, sizes: Ints) -> None:
        most = self._target.config.max_request_size
        too_large = np.flatnonzero(sizes[numbers] + HEADER_SIZE > most)
        if len(too_large):
            row = numbers[too_large[0]]
            raise UsageError(
                f"{self._name(row)} takes {sizes[row] + HEADER_SIZE} bytes as a record of topic {topic!r}, and "
                f"max.request.size is {most}: raise it, and with it max.message.bytes of the topic"
            )

    def _choose(self, name: str, rows: pa.RecordBatch, numbers: Ints, sizes: Ints) -> Ints:
        """The partition of each of these rows: as the row says, else by its key, else by turns."""
        chosen = self._given(name, _column(rows, "partition"), numbers)
        topic = self._target.topic(name)
        count = self.partitions[name] = len(topic.partitions)
        keys = _column(rows, "key")
        if keys is not None:
            keyed = (chosen < 0) & keys.is_valid().to_numpy(zero_copy_only=False)[numbers]
            if keyed.any():
                chosen[keyed] = by_key(keys, count)[numbers[keyed]]
        left = chosen < 0
        if left.any():
            chosen[left] = self._sticky.take(sizes[numbers[left]], count, topic.limit)
        return chosen

    def _given(self, topic: str, partition: pa.Array | None, numbers: Ints) -> Ints:
        """What the column partition says; -1 where it says nothing."""
        if partition is None:
            return np.full(len(numbers), -1)
        given: Ints = partition.fill_null(-1).to_numpy()[numbers].astype(np.int64)
        is_given = partition.is_valid().to_numpy(zero_copy_only=False)[numbers]
        count = len(self._target.topic(topic, int(given.max(initial=0)) + 1).partitions)
        wrong = np.flatnonzero(is_given & ((given < 0) | (given >= count)))
        if len(wrong):
            raise UsageError(
                f"{self._name(numbers[wrong[0]])} is for partition {given[wrong[0]]} of topic {topic!r}, which has "
                f"{count}, from 0 to {count - 1}: mend the column partition, or leave it null"
            )
        return given

    def _timestamps(self, rows: pa.RecordBatch) -> Ints | int:
        """Of each row; of null, and without the column, now."""
        now, given = int(time.time() * 1000), _column(rows, "timestamp")
        if given is None or given.null_count == len(given):
            return now
        if not self._takes_any_time:
            self._check_times(given)
        if pa.types.is_timestamp(given.type):
            given = given.cast(pa.timestamp("ms", given.type.tz), safe=False)
        times: Ints = given.cast(pa.int64()).fill_null(now).to_numpy()
        check_timestamps(int(times.min()), int(times.max()))  # their differences, too, would wrap round in silence
        return times

    def _check_times(self, given: pa.Array) -> None:
        """As send() does, because whoever builds the batch can no longer tell the caller."""
        is_time = pa.types.is_timestamp(given.type)
        if not is_time and not pa.types.is_integer(given.type):
            raise UsageError(f"the column timestamp is {given.type}: give milliseconds since 1970, or Arrow timestamps")
        numbers = (given.cast(pa.int64()) if is_time else given).fill_null(0).to_numpy()
        most = LONG_MAX // 1000 if is_time and given.type.unit == "s" else LONG_MAX
        wrong = np.flatnonzero((numbers < 0) | (numbers > most))
        if len(wrong):
            unit = f" {given.type.unit}" if is_time else ""
            raise UsageError(
                f"{self._name(wrong[0])} has the timestamp {numbers[wrong[0]]}{unit}, and a record's is from 0 to "
                "2^63-1, in milliseconds since 1970: mend the column timestamp, or leave it null"
            )

    def _name(self, row: np.int64) -> str:
        return self._named(self.rows + int(row))


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    return rows.column(name) if name in rows.schema.names else None


def _cuts(partitions: Ints, sizes: Ints, limit: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each batch: of one partition, and of as many rows as the limit allows, or of one."""
    filled = np.cumsum(sizes)
    changes = np.flatnonzero(np.diff(partitions)) + 1
    begin = 0
    for last in [*changes.tolist(), len(partitions)]:
        while begin < last:
            fits = int(np.searchsorted(filled, filled[begin] - sizes[begin] + limit, "right"))
            end = min(last, max(begin + 1, fits))
            yield begin, end
            begin = end
