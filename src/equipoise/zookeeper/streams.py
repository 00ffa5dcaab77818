"""Streams: a short queue of chunks each. The fetcher fills it, and one thread of the application empties it.

A chunk has the records of one partition from one poll. A record counts as consumed when the stream returns it, before
the application has processed it, as in the old client.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Self

from equipoise.client.fetch.records import ConsumerRecord
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.protocol.views import Gate, PartitionTopicInfo


class ConsumerTimeoutError(EquipoiseError):
    """No record came within consumer.timeout.ms. The stream can be read on."""


Chunk = tuple[PartitionTopicInfo, Iterator[ConsumerRecord]]


class Stream:
    """Records of whatever partitions this stream has at the moment, for one thread. `for record in stream`."""

    def __init__(self, room: int, timeout_ms: int, gate: Gate) -> None:
        self._room = room
        self._timeout = None if timeout_ms < 0 else timeout_ms / 1000
        self._gate = gate
        self._chunks: deque[Chunk] = deque()  # the first is being read
        self._changed = threading.Condition()
        self._is_ended = False
        self._failure: EquipoiseError | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        record = self.take(self._timeout)
        if record is not None:
            return record
        if self._is_ended:
            raise StopIteration
        raise ConsumerTimeoutError(f"no record came within consumer.timeout.ms, which is {self._timeout or 0:g} s")

    def take(self, timeout: float | None = None) -> ConsumerRecord | None:
        """The next record; None when the time (seconds) is up, or when the consumer is closed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                record = self._pop() if self._gate.is_open else None
                if record is not None or self._is_ended:
                    return record
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)

    def _pop(self) -> ConsumerRecord | None:
        while self._chunks:
            info, records = self._chunks[0]
            for record in records:
                info.consumed = record.offset + 1  # also back: a log that begins anew has smaller offsets
                return record
            self._chunks.popleft()
            self._changed.notify_all()
        return None

    # -- for the fetcher

    def put(self, info: PartitionTopicInfo, records: list[ConsumerRecord]) -> None:
        """Waits for room, and with it every other partition of this consumer. Gives up if the partition is gone."""
        with self._changed:
            while len(self._chunks) >= self._room and info.is_live and not self._is_ended:
                self._changed.wait()
            if info.is_live:
                self._chunks.append((info, iter(records)))
                self._changed.notify_all()

    def drop(self, info: PartitionTopicInfo) -> None:
        """Nothing of this partition is handed out any more."""
        with self._changed:
            info.is_live = False
            self._chunks = deque(chunk for chunk in self._chunks if chunk[0] is not info)
            self._changed.notify_all()

    def look_again(self) -> None:
        """The gate has been opened."""
        with self._changed:
            self._changed.notify_all()

    def end(self, failure: EquipoiseError | None = None) -> None:
        """Drops what waits and ends the iteration, with the failure if there is one. The first failure stays."""
        with self._changed:
            self._chunks.clear()
            self._failure = self._failure or failure
            self._is_ended = True
            self._changed.notify_all()
