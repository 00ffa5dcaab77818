"""What compaction knows of transactions on its way through the log (CleanedTransactionMetadata). Pure.

The records of an aborted transaction go. Its marker stays until a pass meets none of its batches; so does the marker of
a committed transaction. Rule T.56.
"""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.log.producer_state import AbortedTxn
from equipoise.wire.records.batch import BatchHeader


class CleanedTransactions:
    """Give it every batch of one pass, in order. `aborted`: the transactions whose markers the pass can meet."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._ongoing: dict[int, AbortedTxn] = {}  # aborted later, by producer id
        self._met: set[int] = set()  # the producers of those of which there was a batch
        self._committed: set[int] = set()  # the producers of other open transactions

    def _advance(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            found = self._to_come.pop()
            self._ongoing.setdefault(found.producer_id, found)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of this batch were aborted (CleanedTransactionMetadata.onBatchRead)."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def ends_aborted(self, header: BatchHeader) -> AbortedTxn | None:
        """The transaction of an ABORT marker, if it has batches left: the marker stays, and the index keeps it."""
        self._advance(header.last_offset)
        found = self._ongoing.pop(header.producer_id, None)
        if header.producer_id not in self._met:
            return None
        self._met.discard(header.producer_id)
        return found

    def ends_committed(self, header: BatchHeader) -> bool:
        """Whether a COMMIT marker has batches left (CleanedTransactionMetadata.onControlBatchRead)."""
        self._advance(header.last_offset)
        if header.producer_id not in self._committed:
            return False
        self._committed.discard(header.producer_id)
        return True
