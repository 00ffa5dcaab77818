"""What a log needs of the medium it lies on. `disk` and `memory` provide it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.log.storage.faults import Faults
from equipoise.wire.records.batch import Buffer

if TYPE_CHECKING:
    from equipoise.log.producer_state import ProducerStateManager
    from equipoise.log.segment import LogSegment


class Checkpoint(NamedTuple):
    """What a partition must remember that its batches do not say."""

    log_start_offset: int = 0
    cleaned: tuple[tuple[int, int], ...] = ()
    """(end offset, time) of past compactions, oldest first: up to there, from then on, the log was clean."""


class TailNotCutError(OSError):
    """A write failed half-way and its tail could not be cut off again: the storage must not be written to."""


class Storage(Protocol):
    """The bytes of a segment. No batch is ever split between two views."""

    size: int

    def append(self, parts: Sequence[Buffer]) -> None:
        """Adds whole batches. On OSError nothing has changed, except after `TailNotCutError`."""

    def peek(self, position: int, length: int) -> Buffer:
        """Up to `length` bytes from `position`: a whole header at least, if a batch begins there."""

    def views(self, start: int, end: int) -> list[memoryview]:
        """The bytes between two batch boundaries. They stay valid after `close` and `delete`."""

    def sync(self) -> None:
        """Makes the bytes durable."""

    def close(self) -> None:
        """Lets go of what the system lends. A later use takes it again."""

    def delete(self) -> None: ...


class Replacement(NamedTuple):
    """Neighbouring segments, and the one compacted segment that takes their place."""

    old: Sequence[LogSegment]
    new: LogSegment


class SyncTask(Protocol):
    """Work for the flusher's thread: makes durable what was written when it was made."""

    end_offset: int

    @property
    def sealed(self) -> Sequence[tuple[LogSegment, int]]:
        """Segments, and up to which size they are sealed when this is done."""

    def run(self) -> None:
        """Raises ShortageError if it has to be called again.

        Raises any other OSError if the medium did not take the data: then nothing is known of it.
        """


class Files(Protocol):
    """The files of one partition."""

    volatile: bool
    """True where nothing outlives the process, so that there is nothing to sync."""

    path: Path
    """Where they are, for messages."""

    @property
    def faults(self) -> Faults: ...

    def storage(self, base_offset: int) -> Storage: ...

    def cleaned_storage(self, base_offset: int) -> Storage:
        """Where compaction writes, until `replace` puts it in place."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Durable when it returns."""

    def replace(self, replacement: Replacement) -> None:
        """A crash on the way leaves either the old segments or the new one. On OSError nothing has changed."""

    def sync_task(
        self,
        end_offset: int,
        written: Sequence[LogSegment],
        finished: Sequence[LogSegment],
        producers: ProducerStateManager,
    ) -> SyncTask | None:
        """Syncs `written`, then seals `finished` and notes the state of the producers."""

    def make_room(self) -> None:
        """The system has refused a descriptor: gives back those that are not in use."""

    def delete(self) -> None: ...
