"""The end of a transaction: EndTxn, or an abort by the coordinator; then markers; then the id is free again."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from equipoise.coordinator.step import Caller
from equipoise.coordinator.transactions.config import EPOCH_BUMP
from equipoise.coordinator.transactions.events import EndReason, TransactionEnded
from equipoise.coordinator.transactions.metadata import MAX_EPOCH, TransactionMetadata, TxnTransitMetadata
from equipoise.coordinator.transactions.requests import (
    BUSY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Answer,
    EndTxn,
    Request,
    TopicPartition,
)
from equipoise.coordinator.transactions.states import AT_REST, END_TV1, END_TV2, PREPARED, State, Verdict
from equipoise.coordinator.transactions.step import Markers, TransactionStep, TransitionWritten
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.transactions.shard import TransactionShard


def end_txn(shard: TransactionShard, request: EndTxn, caller: Caller, step: TransactionStep) -> Answer | None:
    """Rule T.23. The version of the request decides by which rules. Kafka: TransactionCoordinator.handleEndTransaction,
    TransactionVersion.transactionVersionForEndTxn."""
    if not request.transactional_id:
        return Answer(ErrorCode.INVALID_REQUEST)
    entry = shard.entries.get(request.transactional_id)
    if entry is None:
        return Answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    find = _verdict_tv2 if request.client_transaction_version >= EPOCH_BUMP else _verdict_tv1
    verdict = find(entry, request)
    match verdict:
        case Verdict.PREPARE:
            reason = EndReason.COMMITTED if request.committed else EndReason.ABORTED
            version = request.client_transaction_version
            return _decide(shard, entry, version, step, reason=reason, request=request, caller=caller)
        case Verdict.REPEATED:
            return Answer(ErrorCode.NONE, entry.fields.producer_id, entry.fields.producer_epoch)
        case Verdict.BUSY:
            return BUSY
        case Verdict.INVALID:
            return Answer(ErrorCode.INVALID_TXN_STATE)
        case Verdict.FENCED:
            return shard.fenced(entry, request, step)
        case error:
            return Answer(error)


def _verdict_tv1(entry: TransactionMetadata, request: EndTxn) -> Verdict | ErrorCode:
    """Rule T.23. Kafka: TransactionCoordinator.endTransactionWithTV1."""
    if request.producer_id != entry.fields.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != entry.fields.producer_epoch:
        return Verdict.FENCED
    if entry.pending is not None:
        return Verdict.BUSY
    return END_TV1[entry.state][0 if request.committed else 1]


def _verdict_tv2(entry: TransactionMetadata, request: EndTxn) -> Verdict | ErrorCode:
    """Rules T.24 and T.27. Kafka: TransactionCoordinator.endTransaction."""
    if entry.pending is not None:
        return Verdict.BUSY
    fields, is_overflow = entry.fields, _is_repeated_overflow(entry.fields, request)
    if request.producer_id != fields.producer_id and not is_overflow:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeated = is_overflow or request.producer_epoch == fields.producer_epoch - 1
    if not is_repeated and request.producer_epoch != fields.producer_epoch:
        return Verdict.FENCED
    return END_TV2[entry.state][(0 if request.committed else 2) + is_repeated]


def _is_repeated_overflow(fields: TxnTransitMetadata, request: EndTxn) -> bool:
    """The first request has brought a new producer id, and its answer was lost. Rule T.27."""
    is_previous = request.producer_id == fields.previous_producer_id and request.producer_epoch == MAX_EPOCH - 1
    is_over = fields.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    return is_previous and is_over and fields.producer_epoch == 0


def fence(
    shard: TransactionShard,
    entry: TransactionMetadata,
    reason: EndReason,
    step: TransactionStep,
    *,
    request: Request | None = None,
    caller: Caller | None = None,
) -> Answer | None:
    """The coordinator aborts, and the producer has no say any more. Before transaction version 2 the epoch is taken
    first, and once only, even if the record cannot be written.

    Rules T.28 and T.29. Kafka: TransactionMetadata.prepareFenceProducerEpoch.
    """
    version, fields = shard.config.transaction_version, entry.fields
    if version < EPOCH_BUMP:
        is_taken = entry.has_failed_epoch_fence or fields.producer_epoch == MAX_EPOCH
        epoch = fields.producer_epoch if is_taken else fields.producer_epoch + 1
        entry.fields = fields._replace(producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
    entry.pending = State.PREPARE_EPOCH_FENCE
    return _decide(shard, entry, version, step, reason=reason, request=request, caller=caller)


def _decide(
    shard: TransactionShard,
    entry: TransactionMetadata,
    version: int,
    step: TransactionStep,
    *,
    reason: EndReason,
    request: Request | None,
    caller: Caller | None,
) -> Answer | None:
    """Rules T.24 to T.26. Kafka: TransactionMetadata.prepareAbortOrCommit."""
    at, is_fence = shard.wall_time(step.now), entry.pending is not None
    changes: dict[str, Any] = {
        "next_producer_id": NO_PRODUCER_ID,
        "last_update_ms": at,
        "client_transaction_version": version,
    }
    if version >= EPOCH_BUMP:
        try:
            changes |= _bumped(shard, entry, is_fence=is_fence)
        except KafkaError as error:
            return Answer(error.code)
    if entry.state in AT_REST:  # an abort of nothing
        changes |= {"start_ms": at, "partitions": frozenset()}
    target = State.PREPARE_COMMIT if reason is EndReason.COMMITTED else State.PREPARE_ABORT
    written = entry.prepare(target, **changes)
    shard.write(entry, written, step, request=request, caller=caller, reason=reason)
    return None


def _bumped(shard: TransactionShard, entry: TransactionMetadata, *, is_fence: bool) -> dict[str, int]:
    """The decision takes the next epoch. The last epoch of a producer id brings the next id with it. Rule T.26."""
    epoch = entry.fields.producer_epoch
    changes = {"producer_epoch": min(epoch + 1, MAX_EPOCH), "last_producer_epoch": epoch}
    if entry.is_epoch_exhausted and not is_fence:
        changes["next_producer_id"] = shard.new_producer_id()
    return changes


def prepare_written(
    shard: TransactionShard, entry: TransactionMetadata, outcome: TransitionWritten, step: TransactionStep
) -> None:
    """The decision is durable: the client hears it, and markers go out. Rules T.24, T.30 and T.32. Kafka:
    TransactionMarkerChannelManager.addTxnMarkersToSend."""
    fields = entry.fields
    assert outcome.reason is not None
    open_ms = max(shard.wall_time(step.now) - fields.start_ms, 0)
    names = entry.transactional_id, step.now, fields.producer_id, fields.producer_epoch
    step.note(TransactionEnded(*names, outcome.reason, fields.partitions, open_ms))
    send_markers(entry, step)
    if not fields.partitions:
        complete(shard, entry, step)
    if outcome.caller is not None and outcome.request is not None:
        shard.answer(outcome.request, outcome.caller, _told(outcome), step)


def _told(outcome: TransitionWritten) -> Answer:
    """A new producer comes again when the old transaction is over. Rules T.15 and T.26."""
    if not isinstance(outcome.request, EndTxn):
        return BUSY
    fields = outcome.fields
    if fields.next_producer_id != NO_PRODUCER_ID:
        return Answer(ErrorCode.NONE, fields.next_producer_id, 0)
    return Answer(ErrorCode.NONE, fields.producer_id, fields.producer_epoch)


def send_markers(entry: TransactionMetadata, step: TransactionStep) -> None:
    """One for each partition, with the epoch of the decision. Rule T.32."""
    fields = entry.fields
    if fields.partitions:
        step.markers.append(
            Markers(
                entry.transactional_id,
                fields.producer_id,
                fields.producer_epoch,
                fields.state is State.PREPARE_COMMIT,
                fields.partitions,
                fields.client_transaction_version,
            )
        )


def markers_written(
    shard: TransactionShard, entry: TransactionMetadata, partitions: Collection[TopicPartition], step: TransactionStep
) -> None:
    """The last one ends the transaction. Kafka: TransactionMetadata.removePartition,
    TransactionMarkerChannelManager.maybeWriteTxnCompletion."""
    if entry.state not in PREPARED or entry.pending is not None:
        return
    entry.fields = entry.fields._replace(partitions=entry.fields.partitions.difference(partitions))
    if not entry.fields.partitions:
        complete(shard, entry, step)


def complete(shard: TransactionShard, entry: TransactionMetadata, step: TransactionStep) -> None:
    """Every marker is durable: the transaction is over. Rules T.26 and T.32. Kafka:
    TransactionMetadata.prepareComplete."""
    fields = entry.fields
    entry.has_failed_epoch_fence = False
    changes: dict[str, Any] = {}
    if fields.bumps_epoch and fields.next_producer_id != NO_PRODUCER_ID:
        changes = {"producer_id": fields.next_producer_id, "producer_epoch": 0}
    target = State.COMPLETE_COMMIT if fields.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    written = entry.prepare(
        target,
        **changes,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=shard.wall_time(step.now),
    )
    shard.write(entry, written, step)
