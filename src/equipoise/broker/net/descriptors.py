"""File descriptors: their limit, and its division.

Connections and segment files share the system's limit. Each has its part. Beyond it the broker closes files that are
not in use, and refuses connections.
"""

from __future__ import annotations

import contextlib
import logging
from typing import NamedTuple

log = logging.getLogger(__name__)

_RESERVE = 40  # the loop, the listener, the lock, files being replaced, directories being synced by eight threads
_FILE = 2  # descriptors that an open segment may take: the file, and its map (before Python 3.13)
_MOST_FILES = 16_384  # maps are limited too: Linux allows a process 65,530
_NO_LIMIT = 1 << 20


class DescriptorBudget(NamedTuple):
    """The system's limit, and the parts of it that segment files and connections may use."""

    limit: int
    files: int
    connections: int

    def describe(self, partitions: int) -> None:
        """Said at the start, as a warning if files will be closed and opened all the time."""
        log.log(
            logging.WARNING if partitions > self.files else logging.INFO,
            "%d file descriptors: %d connections, and %d segment files open at a time, for %d partitions. "
            "More partitions work, but their files are opened anew at each use; raise the limit by ulimit -n",
            self.limit,
            self.connections,
            self.files,
            partitions,
        )


def raise_limit() -> None:
    """The usual soft limit of 1024 is soon reached."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def budget(*, volatile: bool) -> DescriptorBudget:
    """Half for files, half for connections; without files, all for connections."""
    limit = _limit()
    spare = max(limit - _RESERVE, 8)
    files = 0 if volatile else min(spare // 2 // _FILE, _MOST_FILES)
    return DescriptorBudget(limit, files, spare - files * _FILE)


def _limit() -> int:
    try:
        import resource
    except ImportError:
        return _NO_LIMIT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _NO_LIMIT if soft == resource.RLIM_INFINITY else soft
