"""What the coordinator knows about a transactional id, and how a change of it is prepared.

`fields` is a value: a change is another value, which takes effect when its record is durable. Records carry all of it
but `last_producer_epoch`. Rules T.2, T.3 and T.7. Kafka: TransactionMetadata, TxnTransitMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from equipoise.coordinator.transactions.config import EPOCH_BUMP, NEVER_MS
from equipoise.coordinator.transactions.requests import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from equipoise.coordinator.transactions.states import TRANSITIONS, State, state_of
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

MAX_EPOCH = 32_767
NOT_STARTED = -1


def is_epoch_exhausted(epoch: int) -> bool:
    """Rule T.8. The last one is the coordinator's own, to fence with. Kafka: TransactionMetadata.isEpochExhausted."""
    return epoch >= MAX_EPOCH - 1


class TxnTransitMetadata(NamedTuple):
    """Everything about an id that a record carries, and the epoch before."""

    producer_id: int
    transaction_timeout_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NOT_STARTED  # when the first partition was added, as a wall time; so is the next
    last_update_ms: int = NOT_STARTED
    client_transaction_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Whether each transaction takes a new epoch. Kafka: TransactionVersion.supportsEpochBump."""
        return self.client_transaction_version >= EPOCH_BUMP


@dataclass(slots=True)
class TransactionMetadata:
    """A transactional id. `pending` is the state that is being written. Rule T.6."""

    transactional_id: str
    fields: TxnTransitMetadata
    pending: State | None = None
    has_failed_epoch_fence: bool = False  # the epoch was taken already by a fence that could not be written

    @property
    def state(self) -> State:
        """The state that is durable."""
        return self.fields.state

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer id has no further epoch to give."""
        return is_epoch_exhausted(self.fields.producer_epoch)

    @property
    def can_time_out(self) -> bool:
        """Rule T.37. A two-phase commit never does."""
        is_open = self.state is State.ONGOING and self.pending is None
        return is_open and self.fields.transaction_timeout_ms != NEVER_MS

    def prepare(self, target: State, **changes: Any) -> TxnTransitMetadata:
        """The fields as they will be. The producer id of now is the previous one then.

        Rule T.7. Kafka: TransactionMetadata.prepareTransitionTo.
        """
        origin = self.pending if self.pending is State.PREPARE_EPOCH_FENCE else self.state
        if (origin, target) not in TRANSITIONS or self.pending not in (None, State.PREPARE_EPOCH_FENCE):
            raise AssertionError(f"{self.transactional_id}: {origin.value} to {target.value}, pending {self.pending}")
        self.pending = target
        before: dict[str, Any] = {"state": target, "previous_producer_id": self.fields.producer_id}
        return self.fields._replace(**(before | changes))


def record_of(transactional_id: str, fields: TxnTransitMetadata) -> CoordinatorRecord:
    """The record of a change; Dead is a tombstone. Kafka: TransactionLog.valueToBytes."""
    key = TransactionLogKey(transactional_id=transactional_id)
    if fields.state is State.DEAD:
        return CoordinatorRecord(key, None)
    value = TransactionLogValue(
        producer_id=fields.producer_id,
        previous_producer_id=fields.previous_producer_id,
        next_producer_id=fields.next_producer_id,
        producer_epoch=fields.producer_epoch,
        transaction_timeout_ms=fields.transaction_timeout_ms,
        transaction_status=fields.state.number,
        transaction_partitions=None if fields.state is State.EMPTY else _by_topic(fields.partitions),
        transaction_last_update_timestamp_ms=fields.last_update_ms,
        transaction_start_timestamp_ms=fields.start_ms,
        client_transaction_version=fields.client_transaction_version,
    )
    return CoordinatorRecord(key, value)


def fields_of(value: TransactionLogValue) -> TxnTransitMetadata | None:
    """What a record says; None: a state that is unknown here. Kafka: TransactionLog.read."""
    state = state_of(value.transaction_status)
    if state is None:
        return None
    return TxnTransitMetadata(
        producer_id=value.producer_id,
        transaction_timeout_ms=value.transaction_timeout_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions by topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in group_by_topic(partitions).items()]
