"""A log without a disk: the bytes of a segment in memory, and a partition without files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from equipoise.log.storage.faults import Faults
from equipoise.log.storage.medium import Checkpoint, Files, Replacement, Storage, UnsyncedSegments
from equipoise.wire.records.batch import Buffer

_FIRST_BLOCK = 4096
_LARGEST_BLOCK = 1 << 20


class MemoryStorage(Storage):
    """Blocks of fixed size: a view never prevents growth."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[memoryview] = []
        self._starts: list[int] = []

    def append(self, parts: Sequence[Buffer]) -> None:
        for part in parts:
            if not self._blocks or self._used() + len(part) > len(self._blocks[-1]):
                self._add_block(len(part))
            used = self._used()
            self._blocks[-1][used : used + len(part)] = part
            self.size += len(part)

    def _used(self) -> int:
        return self.size - self._starts[-1]

    def _add_block(self, needed: int) -> None:
        usual = min(2 * len(self._blocks[-1]), _LARGEST_BLOCK) if self._blocks else _FIRST_BLOCK
        self._blocks.append(memoryview(bytearray(max(usual, needed))))
        self._starts.append(self.size)

    def peek(self, position: int, length: int) -> Buffer:
        views = self.views(position, min(position + length, self.size))
        return views[0] if views else b""

    def views(self, start: int, end: int) -> list[memoryview]:
        views = []
        block = bisect_right(self._starts, start) - 1
        while start < end:
            block_start = self._starts[block]
            block_end = self._starts[block + 1] if block + 1 < len(self._starts) else self.size
            views.append(self._blocks[block][start - block_start : min(end, block_end) - block_start].toreadonly())
            start = block_end
            block += 1
        return views

    def sync(self) -> None:
        pass

    close = delete = sync


class MemoryFiles(Files):
    """The files of a partition in memory: none."""

    volatile = True
    path = Path("memory")
    faults = Faults()

    def storage(self, base_offset: int) -> MemoryStorage:
        return MemoryStorage()

    cleaned_storage = storage

    def save(self, checkpoint: Checkpoint) -> None:
        pass

    def replace(self, replacement: Replacement) -> None:
        replacement.new.sealed_size = replacement.new.size

    def sync_task(self, work: UnsyncedSegments) -> None:
        pass

    def forget_producers(self) -> None:
        pass

    make_room = delete = forget_producers
