"""The state of a partition's producers: finds duplicates, refuses gaps, knows open transactions (KIP-98). Pure.

It has the epoch and the last five batches of each producer id, because a client may have five requests in flight and
resend any of them. An unknown producer may begin with any sequence number: retention may have deleted its records.

A transaction opens with a producer's first transactional batch, and ends with a marker. It holds the last stable offset
at its first batch, until the high watermark has passed the marker.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, NamedTuple

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.control import EndTransactionMarker

_BATCHES_KEPT = 5
_MAX_SEQUENCE = 0x7FFFFFFF
_LAST_EPOCH = 32767  # only coordinators use it, to fence
_EPOCH_BUMPS = 2  # the transaction version from which each transaction has an epoch of its own (KIP-890)
MAX_OPEN_TRANSACTIONS = 100_000
NO_EPOCH = NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """A batch that the log has, by its sequence numbers and its offsets."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry(NamedTuple):
    """One producer id: its newest epoch, its last batches, the time of the newest, and its transaction."""

    epoch: int
    batches: tuple[BatchMetadata, ...]
    last_seen: int
    coordinator_epoch: int = NO_EPOCH  # of the last marker
    txn_first_offset: int = NO_OFFSET  # of the open transaction

    @property
    def last_sequence(self) -> int:
        """Of its last batch in this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_timestamp(self) -> int:
        """What its last batch says, or the time of a marker behind it (ProducerStateEntry.lastTimestamp)."""
        ends_with_marker = self.coordinator_epoch != NO_EPOCH and self.txn_first_offset == NO_OFFSET
        return self.last_seen if ends_with_marker or not self.batches else self.batches[-1].timestamp


class Verification(NamedTuple):
    """What the broker knows of transactional batches that it appends (KIP-890)."""

    verified: Container[tuple[int, int]] = ()
    """The (producer id, epoch) whose ongoing transaction has this partition."""
    transaction_version: int = 0


UNVERIFIED = Verification()


class TxnMarker(NamedTuple):
    """A marker to be written for a producer (WriteTxnMarkersRequest.TxnMarkerEntry)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int = 0
    transaction_version: int = 0


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: from its first batch to its marker (AbortedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # when it was aborted: no transaction that was open then begins before it


class ProducerStateManager:
    """State by producer id. `prepare` decides, `commit` remembers once the batches are written."""

    def __init__(self, producers: Mapping[int, ProducerStateEntry] | None = None) -> None:
        self._producers: dict[int, ProducerStateEntry] = dict(producers or {})
        # The first offsets of open transactions, ascending, and (first, marker) of those that ended above the high
        # watermark.
        self._open = sorted(p.txn_first_offset for p in self._producers.values() if p.txn_first_offset >= 0)
        self._unreplicated: list[tuple[int, int]] = []

    def duplicate_of(self, batches: Iterable[tuple[int, BatchHeader]]) -> BatchMetadata | None:
        """The batch in the log that one of these (position, header) repeats (ProducerStateEntry.findDuplicateBatch)."""
        for _, header in batches:
            known = self._producers.get(header.producer_id)
            if known is None or known.epoch != header.producer_epoch or header.base_sequence < 0:
                continue
            for batch in known.batches:
                if batch[:2] == (header.base_sequence, header.last_sequence):
                    return batch
        return None

    def prepare(
        self, headers: Iterable[BatchHeader], now: int, verification: Verification = UNVERIFIED
    ) -> dict[int, ProducerStateEntry]:
        """The state after these batches, with their final offsets. Raises KafkaError if a batch may not follow."""
        prepared: dict[int, ProducerStateEntry] = {}
        for header in headers:
            if header.producer_id >= 0:
                known = prepared.get(header.producer_id) or self._producers.get(header.producer_id)
                if header.is_transactional:
                    self._check_transaction(known, header, verification)
                elif known is not None and known.txn_first_offset >= 0:
                    _check_epoch(known, header.producer_id, header.producer_epoch)
                    raise _invalid_txn_state(header, "has an open transaction here: end it before other records")
                _check(known, header, verification.transaction_version)
                prepared[header.producer_id] = _after(known, header, now)
        return prepared

    def _check_transaction(
        self, known: ProducerStateEntry | None, header: BatchHeader, verification: Verification
    ) -> None:
        """A batch that opens a transaction needs the coordinator's word (UnifiedLog.analyzeAndValidateProducerState).
        Rule T.42."""
        if known is not None and known.txn_first_offset >= 0 and known.epoch == header.producer_epoch:
            return
        if known is not None:
            _check_epoch(known, header.producer_id, header.producer_epoch)
        if (header.producer_id, header.producer_epoch) not in verification.verified:
            raise _invalid_txn_state(header, "sent a record that is not part of an ongoing transaction")
        if len(self._open) >= MAX_OPEN_TRANSACTIONS:
            raise _invalid_txn_state(header, f"comes after {MAX_OPEN_TRANSACTIONS} open transactions of a partition")

    def commit(self, prepared: Mapping[int, ProducerStateEntry]) -> None:
        """The batches are in the log (ProducerStateManager.update)."""
        for producer_id, entry in prepared.items():
            if entry.txn_first_offset >= 0:
                self._begin(producer_id, entry.txn_first_offset)
        self._producers.update(prepared)

    def _begin(self, producer_id: int, first_offset: int) -> None:
        """Offsets rise: `insort` only appends."""
        known = self._producers.get(producer_id)
        if known is None or known.txn_first_offset != first_offset:
            insort(self._open, first_offset)

    def replay(self, header: BatchHeader, marker: EndTransactionMarker | None = None) -> AbortedTxn | None:
        """Adds a batch that is already in the log; of a control batch its marker too. Returns what that aborted."""
        if header.producer_id < 0:
            return None
        known = self._producers.get(header.producer_id)
        if not header.is_control:
            self.commit({header.producer_id: _after(known, header, header.max_timestamp)})
        elif marker is not None:
            return self.complete(header, marker, header.max_timestamp)
        elif known is None or known.epoch < header.producer_epoch:  # compaction has left it for its epoch
            self._producers[header.producer_id] = ProducerStateEntry(header.producer_epoch, (), header.max_timestamp)
        return None

    # Markers

    def check_marker(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, transaction_version: int = 0
    ) -> None:
        """An older epoch, or coordinator, has been replaced. Rule T.43.

        From transaction version 2 on a marker has a newer epoch than the records that it ends: an equal epoch can only
        be a repetition. Kafka: ProducerAppendInfo.appendEndTxnMarker, ProducerAppendInfo.checkCoordinatorEpoch.
        """
        known = self._producers.get(producer_id)
        if known is None:
            return
        _check_epoch(known, producer_id, epoch)
        if (
            transaction_version >= _EPOCH_BUMPS
            and epoch == known.epoch != _LAST_EPOCH
            and known.txn_first_offset != NO_OFFSET
        ):
            raise _old_epoch(producer_id, epoch, f"its open transaction has epoch {known.epoch}, and a marker a newer")
        if marker.coordinator_epoch < known.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker for producer {producer_id} has coordinator epoch {marker.coordinator_epoch}, but "
                f"{known.coordinator_epoch} was seen: another coordinator took its place",
            )

    def complete(self, header: BatchHeader, marker: EndTransactionMarker, seen: int) -> AbortedTxn | None:
        """The marker is in the log. Returns the transaction that it aborted, if there was one (rules T.44, T.45).

        Kafka: ProducerStateManager.completeTxn, ProducerStateManager.lastStableOffset.
        """
        known = self._producers.get(header.producer_id)
        is_same_epoch = known is not None and known.epoch == header.producer_epoch
        batches = known.batches if known is not None and is_same_epoch else ()
        self._producers[header.producer_id] = ProducerStateEntry(
            header.producer_epoch, batches, seen, marker.coordinator_epoch
        )
        if known is None or known.txn_first_offset < 0:
            return None
        first, last = known.txn_first_offset, header.last_offset
        del self._open[bisect_left(self._open, first)]
        heappush(self._unreplicated, (first, last))
        if marker.commit:
            return None
        return AbortedTxn(header.producer_id, first, last, self._open[0] if self._open else last + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins whose end is not known to readers; None if there is none. Rule T.47.

        Kafka: ProducerStateManager.firstUnstableOffset.
        """
        if self._unreplicated:
            first = self._unreplicated[0][0]
            return min(first, self._open[0]) if self._open else first
        return self._open[0] if self._open else None

    def replicated(self, high_watermark: int) -> None:
        """Transactions that ended below it are readable (ProducerStateManager.onHighWatermarkUpdated)."""
        while self._unreplicated and self._unreplicated[0][1] < high_watermark:
            heappop(self._unreplicated)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction here (UnifiedLog.hasOngoingTransaction)."""
        known = self._producers.get(producer_id)
        return known is not None and known.epoch == epoch and known.txn_first_offset >= 0

    def coordinator_epoch(self, producer_id: int) -> int:
        """Of the producer's last marker; 0 if there is none. A marker with an older one is refused."""
        known = self._producers.get(producer_id)
        return 0 if known is None else max(known.coordinator_epoch, 0)

    @property
    def open_transactions(self) -> int:
        """How many there are."""
        return len(self._open)

    def items(self) -> Iterator[tuple[int, ProducerStateEntry]]:
        """Each producer id with its state."""
        return iter(self._producers.items())

    def highest_id(self) -> int:
        """-1 if there is none."""
        return max(self._producers, default=-1)

    def expire(self, now: int, after_ms: int) -> None:
        """Forgets producers that were not seen for `after_ms`, unless a transaction is open (rule T.46).

        Kafka: ProducerStateManager.removeExpiredProducers.
        """
        self._producers = {
            id_: p for id_, p in self._producers.items() if now - p.last_seen < after_ms or p.txn_first_offset >= 0
        }

    def last_records(self) -> LastRecords:
        """What compaction keeps of each producer (UnifiedLog.lastRecordsOfActiveProducers)."""
        offsets, epochs = set[int](), dict[int, int]()
        for producer_id, producer in self._producers.items():
            if producer.batches:
                offsets.add(producer.batches[-1].last_offset)
            else:
                epochs[producer_id] = producer.epoch
        return LastRecords(offsets, epochs)

    def to_json(self) -> list[Any]:
        """The snapshot that `from_json` reads."""
        return [[id_, *producer] for id_, producer in self._producers.items()]

    @classmethod
    def from_json(cls, rows: Iterable[Any]) -> ProducerStateManager:
        """The state of a snapshot. Those written before there were transactions have shorter rows."""
        return cls(
            {
                id_: ProducerStateEntry(epoch, tuple(BatchMetadata(*batch) for batch in batches), *rest)
                for id_, epoch, batches, *rest in rows
            }
        )


class LastRecords(NamedTuple):
    """The end of each producer's last batch; of a producer of which only markers are left, its epoch."""

    offsets: set[int]
    epochs: dict[int, int]

    def has(self, header: BatchHeader) -> bool:
        """Whether the batch tells the next sequence number of its producer, or its epoch."""
        if header.producer_id < 0:
            return False
        if not header.is_control:
            return header.last_offset in self.offsets
        return self.epochs.get(header.producer_id) == header.producer_epoch


def _check_epoch(known: ProducerStateEntry, producer_id: int, epoch: int) -> None:
    """An older epoch has been replaced (ProducerAppendInfo.checkProducerEpoch)."""
    if epoch < known.epoch:
        raise _old_epoch(
            producer_id, epoch, f"but epoch {known.epoch} was seen: a newer instance took its place, or its "
            "transaction was aborted"
        )  # fmt: skip


def _old_epoch(producer_id: int, epoch: int, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {epoch}, {why}")


def _invalid_txn_state(header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} (epoch {header.producer_epoch}) {why}"
    )


def _check(known: ProducerStateEntry | None, header: BatchHeader, transaction_version: int) -> None:
    """A batch follows the last of its epoch, and a new epoch begins at 0 (ProducerAppendInfo.checkSequence).

    A coordinator's batches have no sequence numbers.
    """
    if known is not None:
        _check_epoch(known, header.producer_id, header.producer_epoch)
    if header.base_sequence < 0:
        return
    expected = 0
    if known is None:
        if not header.is_transactional or transaction_version < _EPOCH_BUMPS:
            return
    elif header.producer_epoch == known.epoch:
        expected = (known.last_sequence + 1) & _MAX_SEQUENCE
    if header.base_sequence != expected:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence "
            f"{header.base_sequence}, expected {expected}",
        )


def _after(known: ProducerStateEntry | None, header: BatchHeader, seen: int) -> ProducerStateEntry:
    batch = BatchMetadata(
        header.base_sequence,
        header.last_sequence if header.base_sequence >= 0 else -1,
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
    )
    if known is None:
        first = header.base_offset if header.is_transactional else NO_OFFSET
        return ProducerStateEntry(header.producer_epoch, (batch,), seen, NO_EPOCH, first)
    earlier = known.batches if known.epoch == header.producer_epoch else ()
    first = known.txn_first_offset
    if first < 0 and header.is_transactional:
        first = header.base_offset
    return ProducerStateEntry(
        header.producer_epoch, (*earlier, batch)[-_BATCHES_KEPT:], seen, known.coordinator_epoch, first
    )
