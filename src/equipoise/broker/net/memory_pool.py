"""The memory of unfinished frames: one budget for all connections, so that no number of strangers can take more.

A frame's buffer grows with what arrives. The first `FREE_ROOM` of it is free, so that small requests never wait. When
the budget is used up, connections that need more are not read from until others have finished, first come, first
served. One of them at a time may go over the budget: else all could wait for each other. So unfinished frames take
at most `queued.max.request.bytes`, one frame of `socket.request.max.bytes`, and the free room of each connection.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.broker.clock import Clock, Timer
    from equipoise.broker.net.connection import Connection

log = logging.getLogger(__name__)

FREE_ROOM = 1 << 16
MAX_GROWTH = 1 << 20  # of a frame's buffer at a time: zeros take time, too
_SCARCE_PATIENCE_MS = 2000  # for each MiB of a frame, while others wait for room
_CHECK_MS = 500


class MemoryPool:
    """The budget. A connection that gets nothing is not read until others have freed memory."""

    def __init__(self, limit: int, clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        self._timer: Timer | None = None
        self.used = 0
        self._holders: dict[Connection, None] = {}
        self._waiting: dict[Connection, int] = {}  # and the bytes each needs
        self._over: Connection | None = None  # the one that may go over the budget

    def try_allocate(self, connection: Connection, count: int) -> bool:
        """Whether `connection` may have `count` bytes more; if not, it is fed later."""
        if not self._has_room(connection, count):
            self._wait(connection, count)
            return False
        if self.used + count > self._limit:
            self._over = connection
        self.used += count
        self._holders[connection] = None
        return True

    def _has_room(self, connection: Connection, count: int) -> bool:
        return self.used + count <= self._limit or self._over in (None, connection)

    def release(self, connection: Connection, count: int) -> None:
        """A frame has been served."""
        self.used -= count
        self._holders.pop(connection, None)
        if self._over is connection:
            self._over = None
        for waiting, wanted in list(self._waiting.items()):
            if not self._has_room(waiting, wanted):
                break
            del self._waiting[waiting]
            waiting.feed()

    def forget(self, connection: Connection, count: int) -> None:
        """The connection has ended: returns its memory."""
        self._waiting.pop(connection, None)
        self.release(connection, count)

    def _wait(self, connection: Connection, count: int) -> None:
        self._waiting[connection] = count
        if self._timer is None:
            log.warning(
                "unfinished requests fill queued.max.request.bytes (%d): %d connections hold them; %s has to wait",
                self._limit,
                len(self._holders),
                connection.peer,
            )
            self._timer = self._clock.call_later(_CHECK_MS, self._relieve)

    def _relieve(self) -> None:
        """While others wait, a connection that is slow to finish its frame is closed sooner."""
        self._timer = None
        now = self._clock.now()
        for connection in list(self._holders):
            if self._waiting and connection.is_overdue(now, _SCARCE_PATIENCE_MS):
                log.warning("%s: connection closed: its request is slow, and others wait for room", connection.peer)
                connection.abort()
        if self._waiting:
            self._timer = self._clock.call_later(_CHECK_MS, self._relieve)


def grown(frame: bytearray, room: int) -> bytearray:
    """A small one is copied into a new one, which is quicker; a large one is stretched where it stands, if nobody has
    kept a view of it. (The loop has one in `buffer_updated`, so this is done when the next is asked for.)"""
    if room > MAX_GROWTH:
        with contextlib.suppress(BufferError):
            frame.extend(bytes(room - len(frame)))
            return frame
    new = bytearray(room)
    new[: len(frame)] = frame
    return new
