"""The open segment files of all partitions together. Their number has a limit, so that descriptors are left over.

A file that was not used since the last look is closed first ("second chance"): a use costs one flag, not a move in a
list. A file with bytes that no fdatasync has confirmed stays open as long as another can be closed: the system reports
a failed write-back only to processes that have the file open.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class Closable(Protocol):
    """A file that can be closed between two uses."""

    used: bool  # set by each use
    unsynced: bool

    def settle(self) -> bool:
        """Makes its bytes durable. False if that failed: the file then stays open, and its log learns of it."""

    def close(self) -> None:
        """Also calls `OpenFiles.closed`."""


class OpenFiles:
    """Only for the event loop's thread."""

    def __init__(self, limit: int) -> None:
        self.limit = max(limit, 2)
        self._files: OrderedDict[Closable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def opened(self, file: Closable) -> None:
        """A file is open; another is closed where there are too many."""
        self._files[file] = None
        if len(self._files) > self.limit:
            self._close(len(self._files) - self.limit, file)

    def closed(self, file: Closable) -> None:
        """A file is closed."""
        self._files.pop(file, None)

    def make_room(self) -> bool:
        """Closes some files after the system has refused a descriptor. False if there is nothing to close."""
        before = len(self._files)
        self._close(before // 8 + 1, None)
        return len(self._files) < before

    def _close(self, count: int, keep: Closable | None) -> None:
        """The first round spares used files, the second unsynced files, the third none."""
        for spares in (_was_used, _is_unsynced, _none):
            for _ in range(len(self._files)):
                if count <= 0:
                    return
                file = next(iter(self._files))
                if file is keep or spares(file) or not file.settle():
                    self._files.move_to_end(file)
                    continue
                file.close()
                count -= 1


def _was_used(file: Closable) -> bool:
    used, file.used = file.used, False
    return used or file.unsynced


def _is_unsynced(file: Closable) -> bool:
    return file.unsynced


def _none(file: Closable) -> bool:
    return False
