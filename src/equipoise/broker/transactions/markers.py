"""Carries out decisions: a marker goes to each partition of a transaction.

All partitions are here, so a marker is an append. The shard hears of it when it is durable, or when there is no such
partition any more. A marker that the disk refuses stays missing: the id stays in its Prepare state, and the next start
of the broker writes all its markers again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from equipoise.coordinator.transactions.requests import TopicPartition
from equipoise.coordinator.transactions.step import Markers
from equipoise.log.producer_state import TxnMarker
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.broker.transactions.shards import TransactionShardRunner

log = logging.getLogger(__name__)


def marker_of(markers: Markers, coordinator_epoch: int) -> TxnMarker:
    """What a log writes. The epoch of the coordinator is the leader epoch of its partition. Rule T.36."""
    return TxnMarker(
        markers.producer_id, markers.producer_epoch, markers.commit, coordinator_epoch, markers.transaction_version
    )


class MarkerWriter:
    """Writes markers for all shards (TransactionMarkerChannelManager)."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def send(self, shard: TransactionShardRunner, markers: Markers) -> None:
        """One marker for each partition. Rule T.32."""
        gone: list[TopicPartition] = []
        for topic, index in sorted(markers.partitions):
            try:
                target = self._server.topics.partition(topic, index)
            except KafkaError:
                gone.append((topic, index))
                continue
            self._append(shard, markers, target)
        if gone:
            self._written(shard, markers, gone)

    def _append(self, shard: TransactionShardRunner, markers: Markers, target: Partition) -> None:
        name = target.topic.name, target.index
        try:
            marker = marker_of(markers, shard.partition.leader_epoch)
            offset = self._server.append_marker(target, marker).last_offset
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._missing(markers, target, str(error))
                return
            # Somebody has overtaken this coordinator here: the partition has no open transaction of the producer.
            log.warning("%s-%s: no marker for %s: %s", *name, printable(markers.transactional_id), error)
            self._written(shard, markers, [name])
            return
        target.when_settled(offset, partial(self._settled, shard, markers, target, offset))

    def _settled(self, shard: TransactionShardRunner, markers: Markers, target: Partition, last_offset: int) -> None:
        if target.is_durable(last_offset):
            self._written(shard, markers, [(target.topic.name, target.index)])
        else:
            self._missing(markers, target, target.log.offline or "not durable")

    def _written(self, shard: TransactionShardRunner, markers: Markers, names: list[TopicPartition]) -> None:
        now = self._server.clock.now()
        shard.run(shard.core.markers_written(markers.transactional_id, names, now))

    def _missing(self, markers: Markers, target: Partition, why: str) -> None:
        log.error(
            "%s: the marker for %s is missing until the next start: %s",
            target.log.name,
            printable(markers.transactional_id),
            why,
        )
