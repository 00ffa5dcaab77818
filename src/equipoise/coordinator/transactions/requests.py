"""What is asked of the transaction coordinator, and its answer, as values.

They are no messages: Produce and TxnOffsetCommit ask too, and a request that waits is kept and asked again.
"""

from __future__ import annotations

from typing import NamedTuple

from equipoise.coordinator.step import Caller
from equipoise.wire.errors import ErrorCode

TopicPartition = tuple[str, int]
NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1


class InitProducerId(NamedTuple):
    """A producer wants an id and an epoch. It may bring those it has (KIP-360)."""

    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def expected_epoch(self) -> int | None:
        """The epoch that the producer brings, if it brings one."""
        return None if self.producer_id == NO_PRODUCER_ID else self.producer_epoch


class AddPartitions(NamedTuple):
    """Partitions that are about to be written to. `is_beside`: records wait, and go with the record of the transaction:
    the step says when they may."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_transaction_version: int = 0
    is_beside: bool = False


class EndTxn(NamedTuple):
    """The client has decided."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_transaction_version: int = 0


Request = InitProducerId | AddPartitions | EndTxn


class Answer(NamedTuple):
    """An error, or what the producer uses from now on."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


BUSY = Answer(ErrorCode.CONCURRENT_TRANSACTIONS)


class Parked(NamedTuple):
    """A request that waits until its id has no pending state, or for so long. Rule T.88."""

    request: Request
    caller: Caller
    deadline: int
