"""Refusals of the system: logged once when they begin, with the remedy, and once when they are over.

A full disk refuses every write of every client. A line for each would hide the important line.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from threading import Lock

_log = logging.getLogger(__name__)
_QUIET_S = 5  # a fault that has not been met for so long is over with whatever succeeds next
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class ShortageError(OSError):
    """The system has no descriptor or memory at the moment. Nothing has changed; a later attempt may succeed."""


def shortage(error: OSError) -> OSError:
    """Distinguishes a shortage from errors of the disk."""
    if error.errno not in _SHORTAGES or isinstance(error, ShortageError):
        return error
    return ShortageError(error.errno, error.strerror, error.filename)


class FaultKind(Enum):
    """What the system refuses, and the remedy."""

    DISK_FULL = "disk full", "free space on the disk, delete topics, or lower retention.bytes"
    READ_ONLY = "file system read-only", "look for its cause in the system's log, mend it and mount it writable"
    DESCRIPTORS = "no file descriptors left", "raise the limit (ulimit -n), or have fewer connections and partitions"
    MEMORY = "no memory left", "free memory"
    DISK = "disk error", "look for its cause in the system's log and mend the disk"

    def __init__(self, title: str, remedy: str) -> None:
        self.title = title
        self.remedy = remedy


_KINDS = {
    errno.ENOSPC: FaultKind.DISK_FULL,
    errno.EDQUOT: FaultKind.DISK_FULL,
    errno.EFBIG: FaultKind.DISK_FULL,
    errno.EROFS: FaultKind.READ_ONLY,
    errno.EACCES: FaultKind.READ_ONLY,
    errno.EPERM: FaultKind.READ_ONLY,
    errno.EMFILE: FaultKind.DESCRIPTORS,
    errno.ENFILE: FaultKind.DESCRIPTORS,
    errno.ENOMEM: FaultKind.MEMORY,
    errno.EAGAIN: FaultKind.MEMORY,
}


def is_refusal(error: OSError) -> bool:
    """Whether the system has refused something for the moment. Otherwise the error concerns the call itself."""
    return error.errno in _KINDS


def remedy(error: OSError) -> str:
    """What the operator can do about the error."""
    return _KINDS.get(error.errno or 0, FaultKind.DISK).remedy


class _Fault:
    def __init__(self, now: float) -> None:
        self.began = self.last = now
        self.times = 0
        self.size = 0  # of the largest write that was refused: a smaller one may succeed on a disk that is full


class Faults:
    """The current faults. Any thread may report a fault."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.any = False  # read before each write: most of the time that is all
        self._clock = clock
        self._lock = Lock()
        self._under_way: dict[FaultKind, _Fault] = {}

    def report(self, error: OSError, what: str | Path, size: int = 0) -> None:
        """`what` has failed: a file, or the work on it. `size` bytes were to be written."""
        kind = _KINDS.get(error.errno or 0, FaultKind.DISK)
        with self._lock:
            now = self._clock()
            is_new = kind not in self._under_way
            fault = self._under_way.setdefault(kind, _Fault(now))
            fault.last, fault.times, fault.size = now, fault.times + 1, max(fault.size, size)
            self.any = True
        if is_new:
            _log.error(
                "%s: %s: %s. Nothing acknowledged is lost; what needs it is refused or waits, and is tried again "
                "when a client asks. Remedy: %s",
                kind.title,
                what,
                error.strerror or error,
                kind.remedy,
            )

    def wrote(self, path: str | Path, size: int) -> None:
        """A write has succeeded. This ends a fault of the disk, if the write is as large as those refused."""
        for kind in (FaultKind.DISK_FULL, FaultKind.READ_ONLY, FaultKind.DISK):
            self._succeeded(kind, path, size)
        self.opened(path)

    def opened(self, path: str | Path) -> None:
        """A file could be opened."""
        for kind in (FaultKind.DESCRIPTORS, FaultKind.MEMORY):
            self._succeeded(kind, path, 0)

    def _succeeded(self, kind: FaultKind, path: str | Path, size: int) -> None:
        with self._lock:
            fault = self._under_way.get(kind)
            now = self._clock()
            if fault is None or (not size >= fault.size > 0 and now - fault.last < _QUIET_S):
                return
            del self._under_way[kind]
            self.any = bool(self._under_way)
        _log.warning(
            "%s: over after %.0f s and %d refusals: %s succeeded", kind.title, now - fault.began, fault.times, path
        )
