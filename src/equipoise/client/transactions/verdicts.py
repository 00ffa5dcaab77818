"""The meaning of errors for a transactional producer, by request: as KIP-1050 sorts them, and the Java producer takes
them.

RETRY is for the producer alone. ABORTABLE and FATAL become exceptions, whose words say what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from equipoise.member.errors import error_of
from equipoise.wire.errors import ErrorCode

SOON_S = 0.02  # Java's pause for the first partition of a transaction (TransactionManager.AddPartitionsToTxnHandler)


class TransactionVerdict(Enum):
    """What the producer does about an error."""

    DONE = auto()  # there is none
    RETRY = auto()  # sends the request again, after a pause
    SOON = auto()  # sends it again after a short pause: the transaction before is being completed
    COORDINATOR_GONE = auto()  # looks for the coordinator, then sends the request again
    ABORTABLE = auto()  # the application must abort the transaction
    FATAL = auto()  # the application must close the producer


_V = TransactionVerdict
_PASSING = {
    ErrorCode.NONE: _V.DONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _V.RETRY,
    ErrorCode.CONCURRENT_TRANSACTIONS: _V.SOON,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _V.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: _V.COORDINATOR_GONE,
    ErrorCode.REQUEST_TIMED_OUT: _V.RETRY,
    ErrorCode.NETWORK_EXCEPTION: _V.RETRY,
    ErrorCode.KAFKA_STORAGE_ERROR: _V.RETRY,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _V.RETRY,
}
_ABORTABLE = {ErrorCode.TRANSACTION_ABORTABLE: _V.ABORTABLE}
FIND_COORDINATOR = {
    **_PASSING,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
    ErrorCode.INVALID_GROUP_ID: _V.ABORTABLE,
}
INIT_PRODUCER_ID = _PASSING
ADD_PARTITIONS_TO_TXN = {
    **_PASSING,
    **_ABORTABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _V.RETRY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _V.ABORTABLE,
    ErrorCode.OPERATION_NOT_ATTEMPTED: _V.ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID: _V.ABORTABLE,
}
ADD_OFFSETS_TO_TXN = {
    **_PASSING,
    **_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID: _V.ABORTABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
}
TXN_OFFSET_COMMIT = {
    **_PASSING,
    **_ABORTABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _V.RETRY,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _V.ABORTABLE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: _V.ABORTABLE,
    ErrorCode.INVALID_GROUP_ID: _V.ABORTABLE,
    # The consumer has lost its partitions.
    ErrorCode.ILLEGAL_GENERATION: _V.ABORTABLE,
    ErrorCode.UNKNOWN_MEMBER_ID: _V.ABORTABLE,
    ErrorCode.REBALANCE_IN_PROGRESS: _V.ABORTABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: _V.ABORTABLE,
    ErrorCode.FENCED_INSTANCE_ID: _V.ABORTABLE,
    ErrorCode.STALE_MEMBER_EPOCH: _V.ABORTABLE,
    ErrorCode.FENCED_MEMBER_EPOCH: _V.ABORTABLE,
}
OFFSET_FETCH = {**_PASSING, ErrorCode.UNSTABLE_OFFSET_COMMIT: _V.SOON}
DESCRIBE_TRANSACTIONS = {**_PASSING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: _V.DONE}
COMMIT_TXN = {**_PASSING, **_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID: _V.ABORTABLE}
ABORT_TXN = {**_PASSING, ErrorCode.UNKNOWN_PRODUCER_ID: _V.DONE}
# Of a batch that is given up. INVALID_PRODUCER_EPOCH too can be aborted, since in version 2 of transactions it may come
# from a time-out that the coordinator has dealt with (Sender.failBatch,
# TransactionManager.maybeTransitionToErrorState).
PRODUCE_FATAL = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
}
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


def verdict_on(code: int, table: Mapping[ErrorCode, TransactionVerdict]) -> TransactionVerdict:
    """What a table says of an error (rule P3.1). What it does not name is fatal: nobody can say what
    became of the transaction (TransactionManager.TxnRequestHandler)."""
    return table.get(error_of(code), _V.FATAL)
