"""What a task of the sink does on an executor: Arrow batches to record batches by partition, and these to a producer.

Rows are gathered until there are enough for batches of a good size, then put in order of their partitions by arrays
of row numbers alone; their bytes are moved once, into the batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from equipoise.member.partitions import TopicPartition
from equipoise.spark.partitioning import Ints, Sticky, by_key
from equipoise.spark.producing import Producer, discard, producer_of
from equipoise.spark.reading import freeze
from equipoise.spark.sink_options import SinkOptions
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import HEADER_SIZE
from equipoise.wire.records.columns import RecordColumns

_ENOUGH_BYTES = 1_000_000, 16_000_000  # what stays in the processor's cache; for batches of many partitions, more
_ENOUGH_BYTES_A_PARTITION = 50_000
_MOST_BYTES = (
    64_000_000  # at a time: Arrow counts the bytes of a column in 32 bits, and a batch of Spark's may be large
)


def write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Returns the number of rows, all of which are stored. UsageError or KafkaError names the row at fault."""
    freeze()
    producer = producer_of(options.producer)
    writing = _Writing(producer, options)
    try:
        for rows in _gathered(batches, writing):
            writing.send(rows)
        producer.flush()
    except BaseException:
        discard(producer)
        raise
    return writing.rows


def _gathered(batches: Iterator[pa.RecordBatch], writing: _Writing) -> Iterator[pa.RecordBatch]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in _pieces(batch):
            gathered.append(piece)
            size += piece.nbytes
            if size >= writing.enough_bytes:
                yield _joined(gathered)
                gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _MOST_BYTES or batch.num_rows < 2:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


class _Writing:
    """One task's rows, on their way to the producer."""

    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer = producer
        self._config = options.producer
        self._topic = options.topic
        self._sticky = Sticky()
        self._partitions: dict[str, int] = {}  # of the topics met so far
        self.rows = 0

    @property
    def enough_bytes(self) -> int:
        """To be worth sending."""
        least, most = _ENOUGH_BYTES
        return min(most, max(least, _ENOUGH_BYTES_A_PARTITION * sum(self._partitions.values())))

    def send(self, rows: pa.RecordBatch) -> None:
        columns = RecordColumns(_column(rows, "key"), rows.column("value"), _column(rows, "headers"))
        order: list[Ints] = []
        ends: list[int] = []
        targets: list[TopicPartition] = []
        for topic, numbers in self._by_topic(rows):
            self._check_sizes(topic, numbers, columns.sizes)
            partitions = self._choose(topic, rows, numbers, columns.sizes)
            # Numbers of 16 bits or fewer are sorted in linear time.
            sorting = np.argsort(partitions.astype(np.min_scalar_type(partitions.max())), kind="stable")
            numbers, partitions = numbers[sorting], partitions[sorting]
            done = ends[-1] if ends else 0
            for begin, end in _cuts(partitions, columns.sizes[numbers], self._producer.batch_limit(topic)):
                targets.append(TopicPartition(topic, int(partitions[begin])))
                ends.append(done + end)
            order.append(numbers)
        self._send(columns, np.concatenate(order), ends, targets)
        self.rows += rows.num_rows

    def _send(self, columns: RecordColumns, order: Ints, ends: list[int], targets: list[TopicPartition]) -> None:
        built = columns.batches(order, ends, int(time.time() * 1000), self._config.codec)
        for target, begin, (header, records) in zip(targets, [0, *ends[:-1]], built, strict=True):
            self._producer.send(target, header, records, self._name(order[begin]))

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, Ints]]:
        """Each topic, and the numbers of its rows."""
        if self._topic is not None:
            yield self._topic, np.arange(rows.num_rows)
            return
        column = rows.column("topic")
        if column.null_count:
            first = np.flatnonzero(column.is_null())[0]
            raise UsageError(f"{self._name(first)} has null as its topic: fill the column, or set the option topic")
        topics = column.dictionary_encode()
        indices = topics.indices.to_numpy()
        for index, topic in enumerate(topics.dictionary.to_pylist()):
            yield topic, np.flatnonzero(indices == index)

    def _check_sizes(self, topic: str, numbers: Ints, sizes: Ints) -> None:
        most = self._config.max_request_size
        too_large = np.flatnonzero(sizes[numbers] + HEADER_SIZE > most)
        if len(too_large):
            row = numbers[too_large[0]]
            raise UsageError(
                f"{self._name(row)} takes {sizes[row] + HEADER_SIZE} bytes as a record of topic {topic!r}, and "
                f"kafka.max.request.size is {most}: raise it, and with it max.message.bytes of the topic"
            )

    def _choose(self, topic: str, rows: pa.RecordBatch, numbers: Ints, sizes: Ints) -> Ints:
        """The partition of each of these rows: as the row says, else by its key, else by turns."""
        chosen = self._given(topic, _column(rows, "partition"), numbers)
        count = self._partitions[topic] = self._producer.partitions(topic)
        keys = _column(rows, "key")
        if keys is not None:
            keyed = (chosen < 0) & keys.is_valid().to_numpy(zero_copy_only=False)[numbers]
            if keyed.any():
                chosen[keyed] = by_key(keys, count)[numbers[keyed]]
        left = chosen < 0
        if left.any():
            chosen[left] = self._sticky.take(sizes[numbers[left]], count, self._producer.batch_limit(topic))
        return chosen

    def _given(self, topic: str, partition: pa.Array | None, numbers: Ints) -> Ints:
        """What the column partition says; -1 where it says nothing."""
        if partition is None:
            return np.full(len(numbers), -1)
        given: Ints = partition.fill_null(-1).to_numpy()[numbers].astype(np.int64)
        is_given = partition.is_valid().to_numpy(zero_copy_only=False)[numbers]
        count = self._producer.partitions(topic, int(given.max(initial=0)) + 1)
        wrong = np.flatnonzero(is_given & ((given < 0) | (given >= count)))
        if len(wrong):
            raise UsageError(
                f"{self._name(numbers[wrong[0]])} is for partition {given[wrong[0]]} of topic {topic!r}, which has "
                f"{count}, from 0 to {count - 1}: mend the column partition, or leave it null"
            )
        return given

    def _name(self, row: np.int64) -> str:
        context = TaskContext.get()
        place = "" if context is None else f" of the DataFrame's partition {context.partitionId()}"
        return f"row {self.rows + int(row) + 1}{place}"


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
