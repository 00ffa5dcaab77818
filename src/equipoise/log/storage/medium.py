"""The interface between a log and its medium. `disk` and `memory` implement it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.log.storage.faults import Faults
from equipoise.wire.records.batch import Buffer

if TYPE_CHECKING:
    from equipoise.log.producer_state import AbortedTxn, ProducerStateManager
    from equipoise.log.segment import LogSegment


class Checkpoint(NamedTuple):
    """Facts about a partition that its batches do not contain."""

    log_start_offset: int = 0
    cleaned: tuple[tuple[int, int], ...] = ()
    """(end offset, time) of past compactions, oldest first: up to there, from then on, the log was clean."""


class TailNotCutError(OSError):
    """A write failed half-way and its tail could not be cut off: the storage must not be written to."""


class Storage(Protocol):
    """The bytes of a segment. No batch is split between two views."""

    size: int

    def append(self, parts: Sequence[Buffer]) -> None:
        """Adds whole batches. After OSError nothing has changed, except with `TailNotCutError`."""

    def peek(self, position: int, length: int) -> Buffer:
        """Up to `length` bytes from `position`: a whole header at least, if a batch begins there."""

    def views(self, start: int, end: int) -> list[memoryview]:
        """The bytes between two batch boundaries. They stay valid after `close` and `delete`."""

    def sync(self) -> None:
        """Makes the bytes durable."""

    def close(self) -> None:
        """Returns resources to the system. A later use takes them again."""

    def delete(self) -> None:
        """Removes the bytes."""


class Replacement(NamedTuple):
    """Neighbouring segments, and the compacted segment that replaces them."""

    old: Sequence[LogSegment]
    new: LogSegment


class ProducerSnapshot(NamedTuple):
    """The state of the producers at the log's end, and what the seals do not tell of aborted transactions."""

    producers: ProducerStateManager
    unsealed_from: int = 0
    """From this offset on, `aborted` has every aborted transaction."""
    aborted: Sequence[AbortedTxn] = ()


class UnsyncedSegments(NamedTuple):
    """What a sync makes durable: the log up to `end_offset`."""

    end_offset: int
    written: Sequence[LogSegment]  # to be synced
    finished: Sequence[LogSegment]  # to be sealed behind that
    snapshot: ProducerSnapshot  # noted with the seals


class SyncTask(Protocol):
    """Work for the flusher: makes everything durable that was written before the task was made."""

    end_offset: int

    sealed: Sequence[tuple[LogSegment, int]]
    """Segments, and the size up to which they are sealed when this is done."""

    @property
    def only_file(self) -> int | None:
        """A descriptor, if the task is to sync this file and nothing else."""

    def run(self) -> None:
        """Raises ShortageError if it must be called again.

        Raises any other OSError if the medium refused the data: its contents are then unknown.
        """


class Files(Protocol):
    """The files of one partition."""

    volatile: bool
    """True where nothing outlives the process, so that there is nothing to sync."""

    path: Path
    """Where they are, for messages."""

    @property
    def faults(self) -> Faults:
        """Where faults of the system are reported."""

    def storage(self, base_offset: int) -> Storage:
        """The bytes of a new segment."""

    def cleaned_storage(self, base_offset: int) -> Storage:
        """The storage that compaction writes to, until `replace` puts it in place."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Durable when it returns."""

    def replace(self, replacement: Replacement) -> None:
        """A crash leaves either the old segments or the new segment. After OSError nothing has changed."""

    def sync_task(self, work: UnsyncedSegments) -> SyncTask | None:
        """Work for another thread; None where there is nothing to sync."""

    def forget_producers(self) -> None:
        """The note on producers is of a longer log: the next start finds them in their batches."""

    def make_room(self) -> None:
        """The system has refused a descriptor: returns those that are not in use."""

    def delete(self) -> None:
        """Removes all files of the partition."""
