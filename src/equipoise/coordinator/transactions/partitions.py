"""Partitions of a transaction: added by AddPartitionsToTxn and AddOffsetsToTxn, or by the first records that go there
(transaction version 2); verified for clients that must have added them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.step import Caller
from equipoise.coordinator.transactions.events import TransactionBegan
from equipoise.coordinator.transactions.requests import BUSY, AddPartitions, Answer, TopicPartition
from equipoise.coordinator.transactions.states import AT_REST, PREPARED, State
from equipoise.coordinator.transactions.step import TransactionStep
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.transactions.shard import TransactionShard

DONE = Answer(ErrorCode.NONE)


def add_partitions(
    shard: TransactionShard, request: AddPartitions, caller: Caller, step: TransactionStep
) -> Answer | None:
    """Rules T.21 and T.22. Kafka: TransactionCoordinator.handleAddPartitionsToTransaction."""
    if not request.transactional_id:
        return Answer(ErrorCode.INVALID_REQUEST)
    entry = shard.entries.get(request.transactional_id)
    if entry is None:
        return Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    fields = entry.fields
    if entry.pending is not None:
        return BUSY
    if request.producer_id != fields.producer_id:
        return Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch != fields.producer_epoch:
        return shard.fenced(entry, request, step)
    if entry.state in PREPARED:
        return BUSY
    if entry.state is State.ONGOING and request.partitions <= fields.partitions:
        if request.is_beside:
            step.admitted.append(caller)
        return DONE
    is_first, at = entry.state in AT_REST, shard.wall_time(step.now)
    target = entry.prepare(
        State.ONGOING,
        partitions=fields.partitions | request.partitions,
        start_ms=at if is_first else fields.start_ms,
        last_update_ms=at,
        client_transaction_version=request.client_transaction_version,
    )
    if is_first:
        names = request.transactional_id, step.now, request.producer_id, request.producer_epoch
        step.note(TransactionBegan(*names, request.partitions))
    shard.write(entry, target, step, request=request, caller=caller)
    if request.is_beside:
        step.admitted.append(caller)
    return None


def verify_partitions(shard: TransactionShard, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
    """Whether records may go there. It changes nothing, and a pending state does not matter.

    Rule T.23. Kafka: TransactionCoordinator.handleVerifyPartitionsInTransaction.
    """
    error = shard.unavailable
    if error is ErrorCode.NONE:
        error = _verify(shard, request)
    if error is not ErrorCode.NONE:
        return dict.fromkeys(request.partitions, error)
    known = shard.entries[request.transactional_id].fields.partitions
    return {
        one: ErrorCode.NONE if one in known else ErrorCode.TRANSACTION_ABORTABLE for one in sorted(request.partitions)
    }


def _verify(shard: TransactionShard, request: AddPartitions) -> ErrorCode:
    entry = shard.entries.get(request.transactional_id)
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if entry is None or request.producer_id != entry.fields.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != entry.fields.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if entry.state in PREPARED else ErrorCode.NONE
