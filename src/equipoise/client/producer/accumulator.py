"""Records on their way, by partition: `send()` adds them, the sender takes them (RecordAccumulator.append,
RecordAccumulator.drain).

Any thread may call `append` and `add`. The sender works on a queue on its loop alone, except on the open batch, which
both use under the lock.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from weakref import WeakSet

from equipoise.client.net.loop_thread import forked
from equipoise.client.producer import delivery
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.delivery import Delivery, ProducerBatch
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader, Buffer
from equipoise.wire.records.build import Row

RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5  # length, attributes, two deltas, three counts: the most they can take


class PartitionQueue:
    """A partition's batches: `waiting` ones, of which the last may still grow, and those sent."""

    __slots__ = ("failed", "failures", "known_as", "node_id", "partition", "retry_at", "under_way", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[ProducerBatch] = deque()
        self.under_way: list[ProducerBatch] = []
        self.failed: list[ProducerBatch] = []  # to be sent again, in order
        self.failures = 0  # in a row
        self.node_id = -1  # to which batches are under way
        self.known_as: object = None  # the identity under which the broker has stored a batch
        self.retry_at = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on its way."""
        return not (self.waiting or self.under_way or self.failed)


class RecordAccumulator:
    """`wake` is called, by any thread, when the sender should look: a batch has begun, or is full."""

    def __init__(self, config: ProducerConfig, wake: Callable[[], None]) -> None:
        self._config = config
        self._wake = wake
        self._linger = config.linger_ms / 1000
        self._patience = config.delivery_timeout_ms / 1000
        self._room = threading.Condition()
        self._most = config.buffer_memory
        self._used = 0
        self._numbers = itertools.count()
        self.on_room: Callable[[], None] = lambda: None  # called, on the sender's loop, when there is more room
        self._flushed_before = 0.0
        self._refusal: Callable[[], UsageError] | None = None  # of a producer that takes nothing more
        self.check_send: Callable[[], None] | None = None  # raises where a transaction takes no records
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        _ACCUMULATORS.add(self)

    # -- what send() does

    def append(self, partition: TopicPartition, row: Row, size: int, limit: int) -> Delivery:
        """Puts a record of at most `size` bytes into the partition's open batch, or into a new one beyond `limit`.

        Waits for room. KafkaError: there was none for max.block.ms. UsageError: the producer is closed."""
        is_new = False
        with self._room:
            self.check_open()
            if self._used and self._used + size > self._most:
                self._wait_for_room(size)
            self._used += size
            queue = self.queues.get(partition) or self._open(partition)
            waiting = queue.waiting
            batch = waiting[-1] if waiting else None
            if batch is None or batch.header is not None or batch.size + size > limit:
                batch, is_new = self._begin(queue), True
            index = batch.count
            batch.count = index + 1
            batch.size += size
            batch.rows.append(row)
        if is_new:
            self._wake()
        return Delivery(batch, index)

    def add(self, partition: TopicPartition, header: BatchHeader, body: Buffer, label: str) -> ProducerBatch:
        """Takes a batch that is built already. Waits for room."""
        with self._room:
            self.check_open()
            size = len(body)
            if not self.has_room(size):
                self._wait_for_room(size)
            self._used += size
            batch = self._begin(self.queues.get(partition) or self._open(partition))
            batch.header, batch.body, batch.count, batch.size = header, body, header.record_count, size
            batch.label = label
        self._wake()
        return batch

    def _open(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more fit into buffer.memory."""
        return not self._used or self._used + size <= self._most

    def make_room(self) -> None:
        """What lingers goes."""
        self._flushed_before = time.monotonic()
        self._wake()

    def _begin(self, queue: PartitionQueue) -> ProducerBatch:
        now = time.monotonic()
        batch = ProducerBatch(queue.partition, next(self._numbers), now + self._linger, now + self._patience)
        queue.waiting.append(batch)
        return batch

    def _wait_for_room(self, size: int) -> None:
        """Alone in the buffer a record of any size has room: it was checked against max.request.size."""
        self.make_room()
        patience = self._config.max_block_ms / 1000
        if not self._room.wait_for(lambda: self._refusal is not None or self.has_room(size), patience):
            raise self.no_room(size)
        self.check_open()

    def check_open(self) -> None:
        """UsageError: nothing is sent any more, or not now. Under the lock, as `flush`: a commit therefore waits for
        each record that was taken before it."""
        if self._refusal is not None:
            raise self._refusal()
        if self.check_send is not None:
            self.check_send()

    def close(self) -> None:
        """Takes nothing more. Who waits for room is told so: the sender would not look at the record any more
        (RecordAccumulator.append)."""
        with self._room:
            self._refusal = closed
            self._room.notify_all()

    def be_forked(self) -> None:
        """In the child of a fork nobody sends what is taken, and nobody gives back what a thread of the parent has
        locked."""
        self._refusal, self._room = forked, threading.Condition()
        for queue in self.queues.values():
            for batch in _all(queue):
                batch.be_forked()

    def no_room(self, size: int) -> KafkaError:
        """The error of a send() whose time is up."""
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self._used} bytes of records wait to be stored, and buffer.memory is {self._config.buffer_memory}: no "
            f"room for {size} more within {self._config.max_block_ms} ms (max.block.ms). The brokers are slow or away: "
            "send less, or raise buffer.memory",
        )

    # -- what the sender does, on its loop

    def flush(self) -> list[ProducerBatch]:
        """All that is not concluded. None of it lingers any more."""
        with self._room:
            self._flushed_before = time.monotonic()
            found = [batch for queue in self.queues.values() for batch in _all(queue)]
        self._wake()
        return found

    def is_ready(self, queue: PartitionQueue, now: float) -> bool:
        """Whether the first batch should go: it is full, or has lingered (RecordAccumulator.batchReady)."""
        first = queue.waiting[0]
        if len(queue.waiting) > 1 or first.header is not None or first.ready_at <= now:
            return True
        return first.ready_at - self._linger <= self._flushed_before

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """The first batch, which grows no more."""
        with self._room:
            return queue.waiting.popleft()

    def release(self, batch: ProducerBatch) -> None:
        """The batch is done: its room is free."""
        with self._room:
            self._used -= batch.size
            self._room.notify_all()
        self.on_room()

    def busy(self) -> Iterator[PartitionQueue]:
        """The queues of partitions that have something on its way."""
        return (queue for queue in list(self.queues.values()) if not queue.is_empty)


def closed() -> UsageError:
    """The error of a producer that is closed."""
    return UsageError("this producer is closed: make a new one")


def _all(queue: PartitionQueue) -> Iterator[ProducerBatch]:
    yield from queue.under_way
    yield from queue.failed
    yield from list(queue.waiting)


_ACCUMULATORS = WeakSet[RecordAccumulator]()


def _forked() -> None:
    delivery.be_forked()
    for accumulator in _ACCUMULATORS:
        accumulator.be_forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
