"""The sweep after loading: open transactions of which no coordinator knows are aborted.

Records and the record that admits them are appended in one turn of the loop, and answered when both are durable. After
a crash the disk may have the former alone. Their producer never got an answer; nobody would ever end the transaction.
Rules T.63 and T.75.

The producer sends them again. Its sequence numbers are known, and they would be taken for stored, though they are
aborted. The marker therefore has the next epoch: the producer hears INVALID_PRODUCER_EPOCH, aborts, and begins anew.
Offsets have no sequence numbers: they may simply come again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from equipoise.broker.groups.shards import OFFSETS_TOPIC
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.transactions.metadata import MAX_EPOCH
from equipoise.log.producer_state import TxnMarker
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.broker.transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)

Open = tuple[int, str, int]  # a producer id, and a partition


def epoch_behind(epoch: int) -> int:
    """The epoch of a marker behind which no record of `epoch` is taken, nor for a duplicate. Rule T.75."""
    return min(epoch + 1, MAX_EPOCH)


def sweep(server: Server, coordinator: TransactionCoordinator) -> None:
    """Nothing is aborted while a shard could not be loaded: its transactions may be anybody's."""
    if any(core.status is not Status.ACTIVE for core in coordinator.opened):
        log.warning("not all of __transaction_state could be loaded: transactions of unknown ids stay open")
        return
    known = {
        (entry.fields.producer_id, *partition)
        for core in coordinator.opened
        for entry in core.entries.values()
        for partition in entry.fields.partitions
    }
    for topic in server.topics:
        for partition in topic.partitions:
            _sweep(server, partition, known)


def _sweep(server: Server, partition: Partition, known: set[Open]) -> None:
    if not partition.log.producers.open_transactions:
        return
    for producer_id, entry in list(partition.log.producers.items()):
        is_known = (producer_id, partition.topic.name, partition.index) in known
        if entry.txn_first_offset < 0 or is_known:
            continue
        log.warning("%s: an open transaction of producer %d is unknown: aborted", partition.log.name, producer_id)
        try:
            coordinator_epoch = max(entry.coordinator_epoch, 0)
            epoch = entry.epoch if partition.topic.name == OFFSETS_TOPIC else epoch_behind(entry.epoch)
            server.append_marker(partition, TxnMarker(producer_id, epoch, False, coordinator_epoch))
        except KafkaError as error:
            log.error("%s: no marker for producer %d: %s", partition.log.name, producer_id, error)
