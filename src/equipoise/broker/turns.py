"""Whose requests have cost much, and so wait for their turn: one connection in each turn of the loop.

All others are served when they are read. So whoever sends a heartbeat waits for one slice of the costly requests
at most, however many connections send them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.broker.connection import Connection


class Turns:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[Connection] = deque()

    def add(self, connection: Connection) -> None:
        self._queue.append(connection)
        if len(self._queue) == 1:
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        connection = self._queue[0]
        try:
            connection.take_turn()
        finally:
            self._queue.popleft()
            if self._queue:
                self._loop.call_soon(self._run)
