"""Server-sent events for many viewers: a ring of the last events, a bounded queue for each viewer.

A viewer that comes back says where it was. It gets what it has missed, or a `reset` if the ring no longer has it. A
viewer that does not read is closed: memory is bounded on this side, and the browser comes back by itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

RING = 1_000  # events kept for those who come back
QUEUED = 256  # events that a viewer may leave unread
KEEP_ALIVE_S = 15.0
Data = dict[str, Any]


class Event(NamedTuple):
    """One event, with its number."""

    seq: int
    type: str
    data: Data

    def encoded(self) -> bytes:
        """As `text/event-stream` has it."""
        text = json.dumps(self.data, separators=(",", ":"), ensure_ascii=True)
        return f"id: {self.seq}\nevent: {self.type}\ndata: {text}\n\n".encode()


class Viewer:
    """One open stream."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUED + 1)
        self.is_closed = False

    def put(self, event: Event) -> None:
        """Closes the viewer if it has too much unread."""
        if self.is_closed:
            return
        if self.queue.qsize() >= QUEUED:
            self.is_closed = True
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)
        else:
            self.queue.put_nowait(event)

    def unread(self) -> bytes:
        """All that is queued: a browser that gets the events of one change together draws once."""
        text = bytearray()
        while not self.queue.empty():
            event = self.queue.get_nowait()
            if event is None:
                self.queue.put_nowait(None)  # for the next look
                break
            text += event.encoded()
        return bytes(text)

    def end(self) -> None:
        """The stream ends after what is queued."""
        if not self.is_closed:
            self.is_closed = True
            self.queue.put_nowait(None)


class Broadcast:
    """Events of one subject. Single writer: the loop."""

    def __init__(self) -> None:
        self.seq = 0
        self._ring: deque[Event] = deque(maxlen=RING)
        self._viewers: set[Viewer] = set()
        self._is_closed = False

    @property
    def viewers(self) -> int:
        """Open streams."""
        return len(self._viewers)

    def publish(self, kind: str, data: Data) -> Event:
        """To every viewer, and into the ring."""
        self.seq += 1
        event = Event(self.seq, kind, data)
        self._ring.append(event)
        for viewer in list(self._viewers):
            viewer.put(event)
        return event

    def skip(self) -> None:
        """Something happened that no event tells: who comes back needs a new snapshot."""
        self.seq += 1
        self._ring.clear()

    def close(self) -> None:
        """Ends every stream, also those that begin from now on: a page comes back while the server is ending."""
        self._is_closed = True
        for viewer in self._viewers:
            viewer.end()

    def missed(self, after: int) -> list[Event] | None:
        """Events after a number; None if some of them are no longer kept, or if the number is not of this console."""
        if after == self.seq:
            return []
        if after > self.seq or not self._ring or self._ring[0].seq > after + 1:
            return None
        return [event for event in self._ring if event.seq > after]

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """The encoded stream, from a number on. It starts at once, so that a browser knows that it is connected."""
        if self._is_closed:
            return
        viewer = Viewer()
        missed = self.missed(after)
        first = [Event(self.seq, "reset", {})] if missed is None else missed
        self._viewers.add(viewer)
        try:
            yield b"retry: 2000\n\n"
            for event in first:
                yield event.encoded()
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):  # wait_for() can drop a cancellation, or an event
                        next_one = await viewer.queue.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if next_one is None:
                    return
                yield next_one.encoded() + viewer.unread()
        finally:
            self._viewers.discard(viewer)
