"""The exceptions of a transactional producer, of the three kinds of KIP-1050. Each message says what to do."""

from __future__ import annotations

from equipoise.wire.errors import ErrorCode, KafkaError


class TransactionAbortableError(KafkaError):
    """The transaction cannot commit. Abort it, and begin another; the producer goes on."""


class TransactionFatalError(KafkaError):
    """The producer cannot go on. Close it; another producer with the transactional id takes over."""


class ProducerFencedError(TransactionFatalError):
    """Another producer has the transactional id, or the coordinator has aborted a transaction that took too long."""


class TransactionTimeoutError(KafkaError):
    """The coordinator has not answered in time, and the outcome is not known. Make the same call again."""


class LostTransactionError(KafkaError):
    """A transaction ended before the process that it was left to could commit it: by its time-out, or by an abort."""


def abortable(code: ErrorCode, what: str) -> TransactionAbortableError:
    """`what` has failed, and the transaction with it."""
    return TransactionAbortableError(code, f"{what}. The transaction cannot commit: abort it, then begin it anew")


def fatal(code: ErrorCode, what: str) -> TransactionFatalError:
    """`what` has failed for good."""
    return TransactionFatalError(
        code, f"{what}. Close this producer; a new one with the same transactional.id aborts what this one left open"
    )


def fenced(code: ErrorCode, transactional_id: str, timeout_ms: int) -> ProducerFencedError:
    """Both causes have the same error code in version 1 of transactions."""
    return ProducerFencedError(
        code,
        f"this producer is fenced: another one has begun with transactional.id {transactional_id!r}, or the "
        f"transaction was open for more than transaction.timeout.ms ({timeout_ms} ms) and the coordinator has aborted "
        "it. Close this producer, and make a new one if no other does its work; give each running producer a "
        "transactional.id of its own",
    )


def not_in_time(call: str, timeout_ms: int, why: str) -> TransactionTimeoutError:
    """The call may have taken effect, or may yet."""
    return TransactionTimeoutError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"{call} was not answered within {timeout_ms} ms (max.block.ms): {why}. Its outcome is not known: call it "
        "again, which finishes it; or close the producer, and its successor aborts what is still open",
    )
