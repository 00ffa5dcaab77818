"""Open transactions of which no coordinator knows: their markers, and who must wait for them.

The sweep finds them after loading, and a refused admission leaves them (rules T.63 and T.75). A marker that the disk
refuses is tried again. Until it is there nothing of the producer is taken: records that come again would be taken for
stored, and new ones would be aborted with the old.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.broker.transactions.markers import AGAIN_MS
from equipoise.coordinator.transactions.metadata import MAX_EPOCH
from equipoise.log.producer_state import TxnMarker
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.clock import Timer
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition

log = logging.getLogger(__name__)

Open = tuple["Partition", int]  # with the producer id


def epoch_behind(epoch: int) -> int:
    """The epoch of a marker behind which no record of `epoch` is taken, nor for a duplicate. Rule T.75."""
    return min(epoch + 1, MAX_EPOCH)


class UnknownTransactions:
    """Those whose markers are missing."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._missing: dict[Open, int] = {}  # with the epoch
        self._timer: Timer | None = None

    def abort(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Ends the transaction that this epoch of a producer has open here, if there is one."""
        self._missing[partition, producer_id] = epoch
        if (error := self._abort((partition, producer_id))) is not None:
            log.error("%s; the marker for producer %d is tried again", error, producer_id)

    def check(self, partition: Partition, producer_id: int) -> None:
        """Raises NOT_ENOUGH_REPLICAS, which a producer repeats, while the marker is missing."""
        if (partition, producer_id) in self._missing and (error := self._abort((partition, producer_id))) is not None:
            why = f"a refused transaction of producer {producer_id} is not taken back yet: {error}"
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, why)

    def close(self) -> None:
        """Tries no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _abort(self, key: Open) -> KafkaError | None:
        partition, error = key[0], None
        if self._is_open(key):
            try:
                self._server.append_marker(partition, self._marker(key))
            except KafkaError as refusal:
                error = refusal
        if error is None or partition.log.offline is not None:  # then nothing is appended before the next start
            del self._missing[key]
        elif self._timer is None:
            self._timer = self._server.clock.call_later(AGAIN_MS, self._again)
        return error

    def _is_open(self, key: Open) -> bool:
        partition, producer_id = key
        return partition.log.producers.is_open(producer_id, self._missing[key])

    def _marker(self, key: Open) -> TxnMarker:
        """Offsets have no sequence numbers: they may come again in the same epoch."""
        (partition, producer_id), epoch = key, self._missing[key]
        if partition.topic.name != OFFSETS_TOPIC:
            epoch = epoch_behind(epoch)
        return TxnMarker(producer_id, epoch, False, partition.log.producers.coordinator_epoch(producer_id))

    def _again(self) -> None:
        self._timer = None
        for key in list(self._missing):
            self._abort(key)
