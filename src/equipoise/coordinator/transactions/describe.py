"""DescribeTransactions and ListTransactions. They change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.transactions.metadata import TransactionMetadata, group_by_topic
from equipoise.coordinator.transactions.states import State
from equipoise.wire.apis.k65_describe_transactions import DescribedTransaction, TopicData
from equipoise.wire.apis.k66_list_transactions import ListedTransaction
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.transactions.shard import TransactionShard

STATE_NAMES = frozenset(state.value for state in State)


def describe(shard: TransactionShard, transactional_id: str, is_visible: Callable[[str], bool]) -> DescribedTransaction:
    """`is_visible`: whether the caller may see a topic. Rule T.89. Kafka:
    TransactionCoordinator.handleDescribeTransactions."""
    error = shard.unavailable if transactional_id else ErrorCode.INVALID_REQUEST
    entry = shard.entries.get(transactional_id)
    if error is ErrorCode.NONE and (entry is None or entry.pending is State.DEAD):
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if error is not ErrorCode.NONE or entry is None:
        return DescribedTransaction(error_code=error, transactional_id=transactional_id)
    fields = entry.fields
    topics = group_by_topic(fields.partitions)
    return DescribedTransaction(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=fields.state.value,
        transaction_timeout_ms=fields.transaction_timeout_ms,
        transaction_start_time_ms=fields.start_ms,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        topics=[TopicData(topic=name, partitions=ids) for name, ids in topics.items() if is_visible(name)],
    )


class ListFilter(NamedTuple):
    """Which ids are asked for; an empty set asks for all."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    matches: Callable[[str], bool] | None = None  # by the pattern of v2

    def takes(self, entry: TransactionMetadata, wall_time: int) -> bool:
        """Kafka: TransactionStateManager.listTransactionStates."""
        fields = entry.fields
        return (
            entry.pending is not State.DEAD
            and (not self.producer_ids or fields.producer_id in self.producer_ids)
            and (not self.states or fields.state.value in self.states)
            and (self.duration_ms < 0 or wall_time - fields.start_ms > self.duration_ms)
            and (self.matches is None or self.matches(entry.transactional_id))
        )


def list_transactions(shard: TransactionShard, wanted: ListFilter, now: int) -> Iterator[ListedTransaction]:
    """Rule T.90. Kafka: TransactionStateManager.listTransactionStates."""
    wall_time = shard.wall_time(now)
    for entry in list(shard.entries.values()):
        if wanted.takes(entry, wall_time):
            yield ListedTransaction(
                transactional_id=entry.transactional_id,
                producer_id=entry.fields.producer_id,
                transaction_state=entry.state.value,
            )
