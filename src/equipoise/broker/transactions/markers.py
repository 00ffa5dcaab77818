"""Carries out decisions: a marker goes to each partition of a transaction.

All partitions are here, so a marker is an append. The shard hears of it when it is durable, or when there is no such
partition any more. A marker that the disk refuses is tried again. Until it is there the id stays in its Prepare state;
a start of the broker writes all its markers again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.transactions.requests import TopicPartition
from equipoise.coordinator.transactions.step import Markers
from equipoise.log.producer_state import TxnMarker
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.broker.transactions.shards import TransactionShardRunner
    from equipoise.broker.transactions.unknown import UnknownTransactions

log = logging.getLogger(__name__)

AGAIN_MS = 1_000  # after a refusal
_REFUSED = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS})


def marker_of(markers: Markers, coordinator_epoch: int) -> TxnMarker:
    """What a log writes. The epoch of the coordinator is the leader epoch of its partition. Rule T.36."""
    return TxnMarker(
        markers.producer_id, markers.producer_epoch, markers.commit, coordinator_epoch, markers.transaction_version
    )


class MarkerWriter:
    """Writes markers for all shards (TransactionMarkerChannelManager)."""

    def __init__(self, server: Server, unknown: UnknownTransactions) -> None:
        self._server = server
        self._unknown = unknown

    def send(self, shard: TransactionShardRunner, markers: Markers) -> None:
        """One marker for each partition. Rule T.32."""
        for why in self._send(shard, markers).values():
            log.error("%s; the marker for %s is tried again", why, printable(markers.transactional_id))

    def _send(self, shard: TransactionShardRunner, markers: Markers) -> dict[TopicPartition, KafkaError]:
        """Returns what is refused. It is tried again."""
        gone: list[TopicPartition] = []
        refused: dict[TopicPartition, KafkaError] = {}
        for topic, index in sorted(markers.partitions):
            try:
                target = self._server.topics.partition(topic, index)
            except KafkaError:
                gone.append((topic, index))
                continue
            if (error := self._append(shard, markers, target)) is not None:
                refused[topic, index] = error
        if gone:
            self._written(shard, markers, gone)
        if refused:
            self._try_later(shard, markers._replace(partitions=frozenset(refused)))
        return refused

    def _try_later(self, shard: TransactionShardRunner, missing: Markers) -> None:
        """Kafka: TransactionMarkerRequestCompletionHandler.onComplete."""
        self._server.clock.call_later(AGAIN_MS, partial(self._again, shard, missing))

    def _again(self, shard: TransactionShardRunner, missing: Markers) -> None:
        if shard.core.status is Status.ACTIVE:
            self._send(shard, missing)

    def _append(self, shard: TransactionShardRunner, markers: Markers, target: Partition) -> KafkaError | None:
        """An error: it is to be tried again."""
        name = target.topic.name, target.index
        try:
            self._unknown.check(target, markers.producer_id)
            marker = marker_of(markers, shard.partition.leader_epoch)
            offset = self._server.append_marker(target, marker).last_offset
        except KafkaError as error:
            if error.code in _REFUSED:
                return error
            # Somebody has overtaken this coordinator here: the partition has no open transaction of the producer.
            log.warning("%s-%s: no marker for %s: %s", *name, printable(markers.transactional_id), error)
            self._written(shard, markers, [name])
            return None
        target.when_settled(offset, partial(self._settled, shard, markers, target, offset))
        return None

    def _settled(self, shard: TransactionShardRunner, markers: Markers, target: Partition, last_offset: int) -> None:
        name = target.topic.name, target.index
        if target.is_durable(last_offset):
            self._written(shard, markers, [name])
        else:
            log.error(
                "%s: the marker for %s is missing until the next start: %s",
                target.log.name,
                printable(markers.transactional_id),
                target.log.offline or "not durable",
            )
            self._try_later(shard, markers._replace(partitions=frozenset({name})))  # the topic may be deleted

    def _written(self, shard: TransactionShardRunner, markers: Markers, names: list[TopicPartition]) -> None:
        now = self._server.clock.now()
        shard.run(shard.core.markers_written(markers.transactional_id, names, now))
