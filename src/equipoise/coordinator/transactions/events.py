"""Events of transactions, for the log, the metrics and the tests. Events never change behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from equipoise.coordinator.transactions.requests import TopicPartition


class EndReason(Enum):
    """Who has ended a transaction."""

    COMMITTED = auto()  # the client, by EndTxn
    ABORTED = auto()  # the client, by EndTxn
    TIMED_OUT = auto()  # nobody, for the transaction's timeout
    FENCED = auto()  # a new producer of the same id, by InitProducerId


@dataclass(frozen=True, slots=True)
class TransactionEvent:
    """Any event: of which id and producer, and when, in the time of `now`."""

    transactional_id: str
    at: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionBegan(TransactionEvent):
    """The first partitions were added."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TransactionEnded(TransactionEvent):
    """The outcome is durable."""

    reason: EndReason
    partitions: frozenset[TopicPartition]
    open_ms: int


@dataclass(frozen=True, slots=True)
class ProducerFenced(TransactionEvent):
    """A request of a past producer of the id was refused. `current_epoch` is that of today's."""

    request: str
    current_epoch: int
