"""Batches that must be decoded before the append: on a thread, and in the order of their arrival.

Kafka does the same on the request's own thread (LogValidator.validateMessagesAndAssignOffsets).

Later batches of a partition wait behind such a batch, so that an idempotent producer's sequence stays whole. Waiting
batches count against their connection like unread replies: the broker soon stops reading it.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.broker.topics.batch_thread import BatchThread
from equipoise.log.batch_validation import BatchValidation
from equipoise.log.producer_state import UNVERIFIED, Verification
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Connection
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.log.partition import LogAppendInfo

log = logging.getLogger(__name__)

_MOST_WAITING = 256 << 20  # bytes, of all connections, also of those that have gone


class AppendOutcome(Protocol):
    """Receives the result of a batch."""

    def appended(self, info: LogAppendInfo) -> None:
        """It is in the log, not yet durable."""

    def failed(self, error: KafkaError) -> None:
        """It is not."""


class QueuedBatch(NamedTuple):
    """A batch, the work on it, its connection, and the receiver of its result."""

    validation: BatchValidation | None
    records: memoryview
    header: BatchHeader
    connection: Connection
    outcome: AppendOutcome
    verification: Verification = UNVERIFIED


def validation_for(partition: Partition, header: BatchHeader) -> BatchValidation | None:
    """What a batch needs before it can be appended; nearly always nothing."""
    codec = partition.topic.codec
    if codec is header.codec:
        codec = None
    compacts = partition.log.config.compacts
    if codec is None and not compacts:
        return None
    return BatchValidation(
        compacts, codec, partition.topic.compression_level, partition.topic.settings.message_max_bytes
    )


class ValidationQueue:
    """The batches of all partitions that wait for the thread, each partition's in their order."""

    def __init__(self, server: Server) -> None:
        self.thread = BatchThread("producing")
        self._server = server
        self._queues: dict[Partition, deque[QueuedBatch]] = {}
        self._bytes = 0

    def is_busy(self, partition: Partition) -> bool:
        """Whether a batch of the partition waits, so that the next must wait behind it."""
        return partition in self._queues

    def add(self, partition: Partition, batch: QueuedBatch) -> None:
        """The batch is appended in its turn. Raises KafkaError if too much waits already."""
        size = batch.header.size
        if self._bytes + size > _MOST_WAITING:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._bytes} bytes wait to be looked into; send this again later"
            )
        self._bytes += size
        batch.connection.held_bytes += size
        queue = self._queues.get(partition)
        if queue is not None:
            queue.append(batch)
            return
        self._queues[partition] = queue = deque([batch])
        self.thread.begin(self._work_off(partition, queue))

    async def _work_off(self, partition: Partition, queue: deque[QueuedBatch]) -> None:
        try:
            while queue:
                await self._append(partition, queue[0])
                self._let_go(queue.popleft())
        finally:
            del self._queues[partition]

    async def _append(self, partition: Partition, one: QueuedBatch) -> None:
        try:
            data, header = one.records, one.header
            if one.validation is not None:
                made, header = await self.thread.run(partial(one.validation.run, data, header))
                data = data if made is None else memoryview(made)
            keyed = one.validation is not None and one.validation.check_keys
            now = self._server.clock.wall_time()
            appended = self._server.append(
                partition, data, [(0, header)], now, keyed=keyed, verification=one.verification
            )
        except KafkaError as error:
            one.outcome.failed(error)
        except Exception:  # the batches behind it must not wait for ever
            log.exception("%s: a batch could not be appended", partition.log.name)
            one.outcome.failed(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed; its log says why"))
        else:
            one.outcome.appended(appended)

    def _let_go(self, one: QueuedBatch) -> None:
        self._bytes -= one.header.size
        one.connection.held_bytes -= one.header.size
        one.connection.drain()
