"""All shards of the transaction coordinator: where an id lives, the topic `__transaction_state`, and loading."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol

from equipoise.broker.config import BrokerConfig
from equipoise.broker.topics.config import stored
from equipoise.broker.transactions.markers import MarkerWriter
from equipoise.broker.transactions.shards import TransactionShardRunner
from equipoise.broker.transactions.sweep import sweep
from equipoise.coordinator.placement import partition_for
from equipoise.coordinator.shard import Status
from equipoise.coordinator.step import Caller
from equipoise.coordinator.transactions.config import TransactionConfig
from equipoise.coordinator.transactions.events import EndReason, TransactionEnded, TransactionEvent
from equipoise.coordinator.transactions.requests import AddPartitions, Answer, Request, TopicPartition
from equipoise.coordinator.transactions.shard import TransactionShard
from equipoise.wire.errors import ErrorCode
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

TRANSACTION_TOPIC = "__transaction_state"


class Token(Protocol):
    """Who asks. `admitted` is for requests that bring records: they may be appended now."""

    def admitted(self) -> None:
        """Appends."""

    def reply(self, answer: Answer) -> None:
        """The coordinator's word."""


class TransactionCoordinator:
    """All shards of this broker. Nothing is opened before the first transactional id is asked for."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.config = _transaction_config(server.config)
        self.markers = MarkerWriter(server)
        self.ended = dict.fromkeys(EndReason, 0)  # transactions since the start of the broker
        self._shards: list[TransactionShardRunner] = []
        self._loading: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Loads the ids there are. Until all are loaded clients are asked to wait."""
        topic = self._server.topics.get(TRANSACTION_TOPIC)
        if topic is not None and not self._shards:
            self._shards = [TransactionShardRunner(self._server, self, one) for one in topic.partitions]
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        for shard in self._shards:
            await shard.load()
        await self._server.group_coordinator.loaded()  # markers go to pending offsets too
        for shard in self._shards:
            if shard.core.status is Status.LOADING:
                shard.activate()
        sweep(self._server, self)

    @property
    def shards(self) -> list[TransactionShardRunner]:
        """All shards. The first caller creates `__transaction_state`."""
        if not self._shards:
            self._create()
        return self._shards

    @property
    def opened(self) -> list[TransactionShard]:
        """What there is, without opening anything."""
        return [shard.core for shard in self._shards]

    def _create(self) -> None:
        """Kafka: TransactionStateManager.transactionTopicConfigs."""
        config = self._server.config
        size = str(config.transaction_state_log_segment_bytes)
        configs = stored({"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": size})
        count = config.transaction_state_log_num_partitions
        topic = self._server.topics.create_internal(TRANSACTION_TOPIC, count, configs)
        self._shards = [TransactionShardRunner(self._server, self, one) for one in topic.partitions]
        for shard in self._shards:
            shard.activate()

    def shard_of(self, transactional_id: str) -> TransactionShardRunner:
        """Rule T.1. Kafka: TransactionStateManager.partitionFor."""
        shards = self.shards
        return shards[partition_for(transactional_id, len(shards))]

    def node_of(self, transactional_id: str) -> int:
        """The broker that clients are sent to: the leader of the id's partition. All of this process serve it."""
        shards = self.shards
        topic = self._server.topics.require(TRANSACTION_TOPIC)
        return topic.partitions[partition_for(transactional_id, len(shards))].leader

    def ask(self, request: Request, token: Token, version: int = 0) -> None:
        """Asks the shard of the id. The answer comes to the token, at once or later."""
        shard = self.shard_of(request.transactional_id)
        shard.run(shard.core.ask(request, Caller(token, version), self._server.clock.now()))

    def verify(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Rule T.23."""
        return self.shard_of(request.transactional_id).core.verify(request)

    def note(self, event: TransactionEvent) -> None:
        """Counts what has ended, and says what an operator would look for."""
        if not isinstance(event, TransactionEnded):
            return
        self.ended[event.reason] += 1
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
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self._shards:
            shard.close()


def _transaction_config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(**{row.name: getattr(config, row.name) for row in fields(TransactionConfig)})
