"""The states of a transactional producer, and every way from one to another; anything not in the table is a bug.

Theory of operation. A transactional id belongs to one producer at a time. InitProducerId claims it: the coordinator
raises the epoch, which fences the producer before, and aborts what that one left open. Then transactions follow one
another. Records and offsets of a transaction count when EndTxn says commit, and never if it says abort.

- Uninitialized: the id is not claimed yet.
- Initializing: InitProducerId is on its way. The coordinator may still have to end the transaction of the producer
  before, and answers CONCURRENT_TRANSACTIONS until then.
- Ready: there is an epoch, and no transaction.
- InTransaction: records and offsets are sent. In version 1 of transactions the producer adds each partition with
  AddPartitionsToTxn before its first batch, and a group with AddOffsetsToTxn. In version 2 (KIP-890) the broker adds
  them with the first batch and with TxnOffsetCommit.
- CommittingTransaction, AbortingTransaction: EndTxn is on its way, or was not answered: the outcome is not known, and
  the same call must be made again. In version 2 the answer brings the epoch of the next transaction, so that a late
  request of this one cannot reach the next.
- AbortableError: a record or an offset was refused. The transaction cannot commit, and abort ends it.
- FatalError: the id belongs to another producer, or nobody can say what became of the transaction. It lasts.

The states are those of TransactionManager.State in Kafka's Java producer, the kinds of errors those of KIP-1050.
"""

from __future__ import annotations

from enum import Enum

from equipoise.wire.transitions import transitions


class TransactionState(Enum):
    """TransactionManager.State."""

    UNINITIALIZED = "Uninitialized"
    INITIALIZING = "Initializing"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    COMMITTING_TRANSACTION = "CommittingTransaction"
    ABORTING_TRANSACTION = "AbortingTransaction"
    ABORTABLE_ERROR = "AbortableError"
    FATAL_ERROR = "FatalError"


_S = TransactionState
TRANSITIONS = transitions(
    {
        _S.INITIALIZING: {
            _S.UNINITIALIZED: "the producer claims its transactional id",
            _S.READY: "it claims the id again: for a new epoch, or for another version of transactions",
            _S.IN_TRANSACTION: "it leaves a prepared transaction to others, and begins anew",
            _S.ABORTING_TRANSACTION: "EndTxn is answered, and sequence numbers have a gap: a new epoch",
        },
        _S.READY: {
            _S.INITIALIZING: "InitProducerId is answered with an epoch",
            _S.COMMITTING_TRANSACTION: "EndTxn is answered",
            _S.ABORTING_TRANSACTION: "EndTxn is answered",
        },
        _S.IN_TRANSACTION: {_S.READY: "the application begins a transaction"},
        _S.COMMITTING_TRANSACTION: {_S.IN_TRANSACTION: "the application commits, and all its records are stored"},
        _S.ABORTING_TRANSACTION: dict.fromkeys((_S.IN_TRANSACTION, _S.ABORTABLE_ERROR), "the application aborts"),
        _S.ABORTABLE_ERROR: {
            _S.IN_TRANSACTION: "a record or an offset was refused",
            _S.COMMITTING_TRANSACTION: "EndTxn was refused, and the transaction can be aborted",
        },
        _S.FATAL_ERROR: dict.fromkeys(
            (origin for origin in _S if origin is not _S.FATAL_ERROR),
            "the id belongs to another producer, or the coordinator refuses for good",
        ),
    }
)
