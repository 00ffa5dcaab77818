"""InitProducerId: who the producer of a transactional id is from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.step import Caller
from equipoise.coordinator.transactions.end import fence
from equipoise.coordinator.transactions.events import EndReason
from equipoise.coordinator.transactions.metadata import (
    NOT_STARTED,
    TransactionMetadata,
    TxnTransitMetadata,
    is_epoch_exhausted,
)
from equipoise.coordinator.transactions.requests import BUSY, NO_PRODUCER_EPOCH, Answer, InitProducerId
from equipoise.coordinator.transactions.states import PREPARED, State
from equipoise.coordinator.transactions.step import TransactionStep
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.transactions.shard import TransactionShard


def init_producer_id(
    shard: TransactionShard, request: InitProducerId, caller: Caller, step: TransactionStep
) -> Answer | None:
    """Rules T.10 to T.16. Kafka: TransactionCoordinator.handleInitProducerId."""
    if not request.transactional_id:
        return Answer(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= shard.config.transaction_max_timeout_ms:
        return Answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    try:
        entry = shard.entries.get(request.transactional_id) or _create(shard, request, step.now)
        if entry.pending is not None:
            return BUSY
        if not _may_go_on(entry.fields, request):
            return shard.fenced(entry, request, step)
        if entry.state in PREPARED:
            return BUSY
        if entry.state is State.ONGOING:
            return fence(shard, entry, EndReason.FENCED, step, request=request, caller=caller)
        fields = _next_producer(shard, entry, request, step.now)
    except KafkaError as error:  # no producer id could be made durable
        return Answer(error.code)
    if fields is None:
        return shard.fenced(entry, request, step)
    shard.write(entry, fields, step, request=request, caller=caller)
    return None


def _create(shard: TransactionShard, request: InitProducerId, now: int) -> TransactionMetadata:
    """Rule T.12. In memory only: the record of this request is its first. Kafka:
    TransactionStateManager.putTransactionStateIfNotExists."""
    fields = TxnTransitMetadata(
        shard.new_producer_id(), request.transaction_timeout_ms, last_update_ms=shard.wall_time(now)
    )
    entry = shard.entries[request.transactional_id] = TransactionMetadata(request.transactional_id, fields)
    return entry


def _may_go_on(fields: TxnTransitMetadata, request: InitProducerId) -> bool:
    """A producer that brings an id must bring the one of today, or the last one if that had no epoch left; an id that
    was forgotten takes everybody. Rule T.13. Kafka: TransactionCoordinator.prepareInitProducerIdTransit."""
    if request.expected_epoch is None or fields.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    is_previous = request.producer_id == fields.previous_producer_id
    return request.producer_id == fields.producer_id or (is_previous and is_epoch_exhausted(request.producer_epoch))


def _next_producer(
    shard: TransactionShard, entry: TransactionMetadata, request: InitProducerId, now: int
) -> TxnTransitMetadata | None:
    """The next epoch, or a new producer id where there is none; None: the producer brings an epoch of the past.

    Rule T.16. Kafka: TransactionMetadata.prepareIncrementProducerEpoch, TransactionMetadata.prepareProducerIdRotation.
    """
    fields, expected = entry.fields, request.expected_epoch
    producer_id, epoch, last_epoch = fields.producer_id, fields.producer_epoch + 1, NO_PRODUCER_EPOCH
    if entry.is_epoch_exhausted and expected in (None, fields.producer_epoch):
        producer_id, epoch = shard.new_producer_id(), 0
        last_epoch = NO_PRODUCER_EPOCH if expected is None else fields.producer_epoch
    elif expected is None:
        pass
    elif fields.producer_epoch == NO_PRODUCER_EPOCH or expected == fields.producer_epoch:
        last_epoch = fields.producer_epoch
    elif expected == fields.last_producer_epoch:  # the answer to the same request was lost
        epoch, last_epoch = fields.producer_epoch, fields.last_producer_epoch
    else:
        return None
    return entry.prepare(
        State.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        transaction_timeout_ms=request.transaction_timeout_ms,
        partitions=frozenset(),
        start_ms=NOT_STARTED,
        last_update_ms=shard.wall_time(now),
    )
