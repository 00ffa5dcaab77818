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

from equipoise.coordinator.shard_state import Status

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.broker.transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)

Open = tuple[int, str, int]  # a producer id, and a partition


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
        server.transaction_coordinator.unknown.abort(partition, producer_id, entry.epoch)
