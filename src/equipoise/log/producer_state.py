"""The state of a partition's idempotent producers: finds duplicates, refuses gaps (KIP-98). Pure.

It has the epoch and the last five batches of each producer id, because a client may have five requests in flight and
resend any of them. An unknown producer may begin with any sequence number: retention may have deleted its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader

_BATCHES_KEPT = 5
_MAX_SEQUENCE = 0x7FFFFFFF


class BatchMetadata(NamedTuple):
    """A batch that the log has, by its sequence numbers and its offsets."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry(NamedTuple):
    """One producer id: its newest epoch, its last batches, and the time of the newest."""

    epoch: int
    batches: tuple[BatchMetadata, ...]
    last_seen: int


class ProducerStateManager:
    """State by producer id. `prepare` decides, `commit` remembers once the batches are written."""

    def __init__(self, producers: Mapping[int, ProducerStateEntry] | None = None) -> None:
        self._producers: dict[int, ProducerStateEntry] = dict(producers or {})

    def duplicate_of(self, batches: Iterable[tuple[int, BatchHeader]]) -> BatchMetadata | None:
        """The batch in the log that one of these (position, header) repeats (ProducerStateEntry.findDuplicateBatch)."""
        for _, header in batches:
            known = self._producers.get(header.producer_id)
            if known is None or known.epoch != header.producer_epoch:
                continue
            for batch in known.batches:
                if batch[:2] == (header.base_sequence, header.last_sequence):
                    return batch
        return None

    def prepare(self, headers: Iterable[BatchHeader], now: int) -> dict[int, ProducerStateEntry]:
        """The state after these batches, with their final offsets. Raises KafkaError if a batch may not follow."""
        prepared: dict[int, ProducerStateEntry] = {}
        for header in headers:
            if header.producer_id >= 0:
                known = prepared.get(header.producer_id) or self._producers.get(header.producer_id)
                _check(known, header)
                prepared[header.producer_id] = _after(known, header, now)
        return prepared

    def commit(self, prepared: Mapping[int, ProducerStateEntry]) -> None:
        """The batches are in the log (ProducerStateManager.update)."""
        self._producers.update(prepared)

    def replay(self, header: BatchHeader) -> None:
        """Adds a batch that is already in the log."""
        if header.producer_id >= 0:
            known = self._producers.get(header.producer_id)
            self._producers[header.producer_id] = _after(known, header, header.max_timestamp)

    def highest_id(self) -> int:
        """-1 if there is none."""
        return max(self._producers, default=-1)

    def expire(self, now: int, after_ms: int) -> None:
        """Forgets producers that were not seen for `after_ms` (ProducerStateManager.removeExpiredProducers)."""
        self._producers = {id_: p for id_, p in self._producers.items() if now - p.last_seen < after_ms}

    def last_offsets(self) -> set[int]:
        """The last offset of each producer: compaction keeps the batches that end there."""
        return {producer.batches[-1].last_offset for producer in self._producers.values()}

    def to_json(self) -> list[Any]:
        """The snapshot that `from_json` reads."""
        return [[id_, *producer] for id_, producer in self._producers.items()]

    @classmethod
    def from_json(cls, rows: Iterable[Any]) -> ProducerStateManager:
        """The state of a snapshot."""
        return cls(
            {
                id_: ProducerStateEntry(epoch, tuple(BatchMetadata(*batch) for batch in batches), last_seen)
                for id_, epoch, batches, last_seen in rows
            }
        )


def _check(known: ProducerStateEntry | None, header: BatchHeader) -> None:
    """An older epoch has been replaced; a new one begins at 0 (ProducerAppendInfo.checkProducerEpoch,
    ProducerAppendInfo.checkSequence)."""
    if known is None:
        return
    if header.producer_epoch < known.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} has epoch {header.producer_epoch}, but epoch {known.epoch} was seen: "
            "a newer instance took its place",
        )
    expected = 0
    if header.producer_epoch == known.epoch:
        expected = (known.batches[-1].last_sequence + 1) & _MAX_SEQUENCE
    if header.base_sequence != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence "
            f"{header.base_sequence}, expected {expected}",
        )


def _after(known: ProducerStateEntry | None, header: BatchHeader, seen: int) -> ProducerStateEntry:
    batch = BatchMetadata(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )
    earlier = known.batches if known is not None and known.epoch == header.producer_epoch else ()
    return ProducerStateEntry(header.producer_epoch, (*earlier, batch)[-_BATCHES_KEPT:], seen)
