"""A connection over TLS: its replies are handed to the transport in small pieces.

The loop encrypts all that it is given at once, before anything else has its turn. So a large Fetch answer goes in
pieces, and no further than the transport has room; the rest follows when the client has read.
"""

from __future__ import annotations

from typing import Any

from equipoise.broker.net.connection import Connection
from equipoise.wire.frames import join_small

PIECE = 1 << 18
_RECORD = 1 << 14  # of TLS: a smaller piece would be a record of its own, a larger one is encrypted where it lies


class TlsConnection(Connection):
    """A client's connection, behind its TLS handshake."""

    __slots__ = ("_ends",)

    def connection_made(self, transport: Any) -> None:
        self._ends = False  # when all replies have left
        super().connection_made(transport)

    def buffer_updated(self, count: int) -> None:
        """The loop of asyncio hands over bytes after `close`, too: what is refused is not served."""
        if not self._transport.is_closing():
            super().buffer_updated(count)

    def _flush(self) -> None:
        if self._transport.is_closing():
            self.held_bytes -= sum(map(len, self._out))
            self._out = []
        while self._out and not self._write_paused:
            pieces, size = self._take()
            self.held_bytes -= size
            self._transport.writelines(join_small(pieces, _RECORD))

    def _take(self) -> tuple[list[Any], int]:
        """The next pieces, a quarter of a MiB together at most; a larger one is cut."""
        pieces, size, taken = [], 0, 0
        for piece in self._out:
            room = PIECE - size
            if len(piece) > room:
                view = memoryview(piece)
                if room:
                    pieces.append(view[:room])
                    size += room
                self._out[taken] = view[room:]
                break
            pieces.append(piece)
            size += len(piece)
            taken += 1
        del self._out[:taken]
        return pieces, size

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._ends and not self._out:
            self._transport.close()

    def close(self) -> None:
        """Ends the connection when the replies that are there have left, also those that are not encrypted yet."""
        self._flush()
        if self._out and not self._transport.is_closing():
            if not self._ends:
                self._ends = True
                self.mute()
        else:
            self._transport.close()
