"""Runs one shard of the transaction coordinator on its partition of `__transaction_state`.

A shard decides (`coordinator/transactions/`); this file acts. It appends the records of one turn of the loop in one
batch, sends answers, and calls the shard again when a deadline passes or a write is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.broker.shard_life import DeadlineTimer, batches_of
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.step import Write
from equipoise.coordinator.transactions.shard import TransactionShard
from equipoise.coordinator.transactions.step import TransactionStep
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError
from equipoise.wire.records.batch import HEADER_SIZE, read_header
from equipoise.wire.records.build import build_pairs
from equipoise.wire.records.read import read_pairs
from equipoise.wire.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_record,
    encode_transaction_key,
    encode_transaction_value,
)

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.broker.transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)

Pair = tuple[bytes, bytes | None]
_RECORD_OVERHEAD = 21  # lengths, deltas and attributes of a record, at most (DefaultRecord.MAX_RECORD_OVERHEAD)


class TransactionShardRunner:
    """One shard: the core, its partition, and what is under way between them."""

    def __init__(self, server: Server, coordinator: TransactionCoordinator, partition: Partition) -> None:
        self.core = TransactionShard(coordinator.config, server.topics.next_producer_id, server.wall_time_of)
        self._server = server
        self._coordinator = coordinator
        self.partition = partition
        self._record_version = 1 if coordinator.config.transaction_version >= 1 else 0
        self._gathered: list[Write] = []
        self._is_retired = False
        self._timer = DeadlineTimer(server.clock, self.core.next_deadline, self._tick)

    # -- life

    @property
    def node_id(self) -> int:
        """The broker that leads the partition, and so coordinates the ids."""
        return self.partition.leader

    async def load(self) -> None:
        """Replays the partition, letting others have their turn. What a broker before us has written is durable
        first."""
        try:
            await self._replay()
        except (KafkaError, ProtocolError, OSError) as error:
            log.error("%s could not be loaded, its transactions are not served: %s", self.partition.log.name, error)
            self.run(self.core.close(self._server.clock.now()))

    async def _replay(self) -> None:
        async for view, pos, header in batches_of(self.partition):
            for key, value in read_pairs(view, pos, header):
                self._apply(key or b"", value)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        record = decode_transaction_record(key, value)
        if record is None:
            log.warning("%s: a record of a newer version of Kafka is passed over", self.partition.log.name)
        else:
            self.core.apply(record)

    def activate(self) -> None:
        """Loading is over, unless it has failed: what was decided is carried out."""
        if self.core.status is Status.LOADING and not self._is_retired:
            self.run(self.core.activate(self._server.clock.now()))

    def close(self) -> None:
        """Answers who waits, and accepts no more requests."""
        self._timer.cancel()
        self.run(self.core.close(self._server.clock.now()))

    def retire(self) -> None:
        """Another broker has the shard. Whoever waits is to look for it there; what was only gathered is never written
        (TransactionStateManager.removeTransactionsForTxnTopicPartition)."""
        self._is_retired = True
        self.close()
        gathered, self._gathered = self._gathered, []
        self._done(gathered, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- steps

    def run(self, step: TransactionStep) -> None:
        """Does what the shard has decided. Who is admitted appends before its answer is sent."""
        for caller in step.admitted:
            caller.token.admitted()
        for caller, answer in step.replies:
            caller.token.reply(answer)
        for write in step.writes:
            self._write(write)
        for markers in step.markers:
            self._coordinator.markers.send(self, markers)
        for event in step.events:
            self._coordinator.note(event)
        self._timer.arm()

    def _tick(self) -> None:
        self.run(self.core.tick(self._server.clock.now()))

    # -- writes

    def _write(self, write: Write) -> None:
        """Gathers. While the disk is busy with a round of syncs the batch grows: it would not be durable earlier."""
        self._gathered.append(write)
        if len(self._gathered) == 1 and not self._server.flusher.after_round(self._append):
            asyncio.get_running_loop().call_soon(self._append)

    def _append(self) -> None:
        writes, self._gathered = self._gathered, []
        limit = self.partition.topic.settings.message_max_bytes - HEADER_SIZE
        batch, pairs, size = list[Write](), list[Pair](), 0
        for write in writes:
            more = self._encoded(write)
            length = sum(len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in more)
            if pairs and size + length > limit:
                self._append_batch(batch, pairs)
                batch, pairs, size = [], [], 0
            batch.append(write)
            pairs += more
            size += length
        if pairs:
            self._append_batch(batch, pairs)

    def _encoded(self, write: Write) -> list[Pair]:
        found = list[Pair]()
        for key, value in write.records:
            assert isinstance(key, TransactionLogKey)
            assert value is None or isinstance(value, TransactionLogValue)
            data = None if value is None else encode_transaction_value(value, self._record_version)
            found.append((encode_transaction_key(key), data))
        return found

    def _append_batch(self, writes: Sequence[Write], pairs: Sequence[Pair]) -> None:
        """Kafka: TransactionStateManager.appendTransactionToLog."""
        stamp = self._server.clock.wall_time()
        try:
            data = memoryview(build_pairs(pairs, stamp))
            if len(data) > self.partition.topic.settings.message_max_bytes:
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {len(data)} bytes")
            info = self._server.append(self.partition, data, [(0, read_header(data))], stamp, keyed=True)
        except KafkaError as error:
            self._done(writes, error.code)
            return
        last_offset = info.last_offset
        self.partition.when_settled(last_offset, lambda: self._settled(writes, last_offset))

    def _settled(self, writes: Sequence[Write], last_offset: int) -> None:
        is_durable = self.partition.is_durable(last_offset)
        self._done(writes, ErrorCode.NONE if is_durable else ErrorCode.KAFKA_STORAGE_ERROR)

    def _done(self, writes: Sequence[Write], error: ErrorCode) -> None:
        for write in writes:
            self.run(self.core.written(write, error, self._server.clock.now()))
