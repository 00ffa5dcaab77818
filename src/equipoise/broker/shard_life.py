"""What every shard of a coordinator needs of its runner, of groups or of transactions: its log, batch by batch, and one
timer for its next deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from equipoise.broker.clock import Clock, Timer
from equipoise.wire.records.batch import BatchHeader, iter_headers

if TYPE_CHECKING:
    from equipoise.broker.topics.topics import Partition

_LOAD_BYTES = 1 << 18  # some 10 ms of work between two turns for the other clients, while a shard is loaded


async def batches_of(partition: Partition) -> AsyncIterator[tuple[memoryview, int, BatchHeader]]:
    """Every batch of the log, with its place, letting others have their turn. What a broker before us has written is
    durable first."""
    source = partition.log
    settled, end = asyncio.Event(), source.log_end_offset
    if end:
        partition.when_settled(end - 1, settled.set)
        await settled.wait()
    offset = source.log_start_offset
    while offset < source.log_end_offset:
        views = source.read(offset, _LOAD_BYTES, source.log_end_offset)
        if not views:
            return
        for view in views:
            for pos, header in iter_headers(view):
                yield view, pos, header
                offset = header.last_offset + 1
        await asyncio.sleep(0)


class DeadlineTimer:
    """Calls `tick` when the next deadline passes. It is asked again after every step."""

    def __init__(self, clock: Clock, next_deadline: Callable[[], int | None], tick: Callable[[], None]) -> None:
        self._clock = clock
        self._next_deadline = next_deadline
        self._tick = tick
        self._timer: Timer | None = None
        self._at: int | None = None

    def arm(self) -> None:
        """A deadline that has moved away is noticed when it comes up; an earlier one counts at once."""
        deadline = self._next_deadline()
        if deadline is None or (self._at is not None and self._at <= deadline):
            return
        self.cancel()
        self._at = deadline
        self._timer = self._clock.call_later(max(deadline - self._clock.now(), 0), self._fire)

    def _fire(self) -> None:
        self._timer = self._at = None
        self._tick()

    def cancel(self) -> None:
        """Until it is armed again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._at = None
