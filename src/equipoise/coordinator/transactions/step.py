"""What comes out of the transaction coordinator: replies, records, markers, and leave to append."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.coordinator.step import BaseStep, Caller
from equipoise.coordinator.transactions.events import EndReason, TransactionEvent
from equipoise.coordinator.transactions.metadata import TxnTransitMetadata
from equipoise.coordinator.transactions.requests import Answer, Request, TopicPartition


class Markers(NamedTuple):
    """One marker for each partition. Give each partition to `TransactionShard.markers_written` when its marker is
    durable, or when there is no such partition any more. Rule T.32."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int


class TransitionWritten(NamedTuple):
    """A change of an id. `request` of `caller` made it, or, without a caller, the coordinator itself."""

    transactional_id: str
    fields: TxnTransitMetadata
    request: Request | None = None
    caller: Caller | None = None
    reason: EndReason | None = None  # of a decision


class TransactionStep(BaseStep[Answer]):
    """One input on its way through the coordinator.

    Who is admitted appends now; replies are sent, records written, markers appended, events noted, in this order.
    """

    __slots__ = ("admitted", "events", "markers")

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.admitted: list[Caller] = []
        self.markers: list[Markers] = []
        self.events: list[TransactionEvent] = []

    def note(self, event: TransactionEvent) -> None:
        """Notes an event."""
        self.events.append(event)
