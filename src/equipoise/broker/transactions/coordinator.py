"""All shards of the transaction coordinator: where an id lives, the topic `__transaction_state`, and loading."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol

from equipoise.broker.config import BrokerConfig
from equipoise.broker.shard_life import ShardedCoordinator
from equipoise.broker.transactions.markers import MarkerWriter
from equipoise.broker.transactions.shards import TransactionShardRunner
from equipoise.broker.transactions.sweep import sweep
from equipoise.broker.transactions.unknown import UnknownTransactions
from equipoise.coordinator.step import Caller
from equipoise.coordinator.transactions.config import TransactionConfig
from equipoise.coordinator.transactions.events import (
    EndReason,
    ProducerFenced,
    TransactionBegan,
    TransactionEnded,
    TransactionEvent,
)
from equipoise.coordinator.transactions.requests import AddPartitions, Answer, Request, TopicPartition
from equipoise.coordinator.transactions.shard import TransactionShard
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

log = logging.getLogger(__name__)

TRANSACTION_TOPIC = "__transaction_state"


class Token(Protocol):
    """Who asks. `admitted` is for requests that bring records: they may be appended now."""

    def admitted(self) -> None:
        """Appends."""

    def reply(self, answer: Answer) -> None:
        """The coordinator's word."""


class TransactionCoordinator(ShardedCoordinator[TransactionShardRunner, TransactionShard]):
    """The shards of transactional ids, on `__transaction_state`, and what they share."""

    topic_name = TRANSACTION_TOPIC

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.config = _transaction_config(server.config)
        self.unknown = UnknownTransactions(server)
        self.markers = MarkerWriter(server, self.unknown)
        self.begun = 0  # transactions since the start of the broker
        self.ended = dict.fromkeys(EndReason, 0)
        self.fenced = 0  # requests of past producers
        self._loading: set[asyncio.Task[None]] = set()
        self._is_swept = True

    def open(self) -> None:
        """Loads the ids there are. Until all are loaded clients are asked to wait."""
        shards = self._open_topic()
        if self._shards:
            self._is_swept = False
            self._begin(self._load(shards, is_start=True))

    def _runner(self, partition: Partition) -> TransactionShardRunner:
        return TransactionShardRunner(self._server, self, partition)

    def _layout(self) -> tuple[int, dict[str, str]]:
        """Kafka: TransactionStateManager.transactionTopicConfigs."""
        config = self._server.config
        size = str(config.transaction_state_log_segment_bytes)
        return config.transaction_state_log_num_partitions, {"compression.type": "uncompressed", "segment.bytes": size}

    def _load_again(self, shard: TransactionShardRunner) -> None:
        self._begin(self._load([shard]))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    async def _load(self, shards: Sequence[TransactionShardRunner], *, is_start: bool = False) -> None:
        """At the start all are activated in the turn of the sweep: nobody has begun anything since."""
        for shard in shards:
            await shard.load()
        await self._server.group_coordinator.loaded()  # markers go to pending offsets too
        for shard in shards:
            shard.activate()
        if is_start:
            sweep(self._server, self)
            self._is_swept = True

    def check_swept(self, partition: Partition, producer_id: int) -> None:
        """Raises NOT_ENOUGH_REPLICAS, which a producer repeats: the sweep may abort what a log has open. Until then
        a batch that comes again would be taken for stored. Rule T.75."""
        if not self._is_swept:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "transactions are being loaded; send this again")
        self.unknown.check(partition, producer_id)

    def is_elsewhere(self, call: Call, transactional_id: str) -> bool:
        """Whether another broker than the one that was asked coordinates the id."""
        return self._server.cluster.is_many and self.node_of(transactional_id) != call.connection.listener.node_id

    def shards_of(self, call: Call) -> list[TransactionShard]:
        """What there is at the broker that the caller has asked."""
        node_id = call.connection.listener.node_id
        return [one.core for one in self._shards if not self._server.cluster.is_many or one.node_id == node_id]

    def serve(self, call: Call, request: Request, token: Token) -> None:
        """Asks on behalf of a client, which must have found the right broker: else NOT_COORDINATOR."""
        if self.is_elsewhere(call, request.transactional_id):
            token.reply(Answer(ErrorCode.NOT_COORDINATOR))
        else:
            self.ask(request, token, call.version)

    def ask(self, request: Request, token: Token, version: int = 0) -> None:
        """Asks the shard of the id. The answer comes to the token, at once or later."""
        shard = self.shard_of(request.transactional_id)
        shard.run(shard.core.ask(request, Caller(token, version), self._server.clock.now()))

    def verify(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Rule T.23."""
        return self.shard_of(request.transactional_id).core.verify(request)

    def note(self, event: TransactionEvent) -> None:
        """Counts, and says what an operator would look for."""
        if isinstance(event, TransactionBegan):
            self.begun += 1
        elif isinstance(event, ProducerFenced):
            self.fenced += 1
        elif isinstance(event, TransactionEnded):
            self.ended[event.reason] += 1
            self._say(event)

    def _say(self, event: TransactionEnded) -> None:
        if event.reason in (EndReason.TIMED_OUT, EndReason.FENCED):
            log.info(
                "transaction of %s (producer %d, epoch %d) aborted after %d ms over %d partitions: %s",
                printable(event.transactional_id),
                event.producer_id,
                event.producer_epoch,
                event.open_ms,
                len(event.partitions),
                "its timeout is over" if event.reason is EndReason.TIMED_OUT else "a new producer has come",
            )

    async def close(self) -> None:
        """Ends loading, and closes all shards."""
        self.unknown.close()
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        for shard in self._shards:
            shard.close()


def _transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(**{row.name: getattr(config, row.name) for row in fields(TransactionConfig)})
