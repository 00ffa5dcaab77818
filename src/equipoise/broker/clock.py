"""The broker's only source of time. Tests put another clock in its place.

There are two times, because the wall clock may be set while the broker runs. `now` only moves forward, with the timers:
it counts every deadline, session and pause. `wall_time` is written into records, and compared with earlier stamps
(retention, expiry of offsets). It decides nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NewType, Protocol

from equipoise.coordinator.step import WallTime

Ms = NewType("Ms", int)


class Timer(Protocol):
    """A callback that a clock has planned."""

    def cancel(self) -> None:
        """The callback does not run any more."""


class Clock(Protocol):
    """Both times and the timers, as the module describes them."""

    def now(self) -> Ms:
        """Milliseconds that never jump. Only differences mean anything."""
        ...

    def wall_time(self) -> WallTime:
        """Milliseconds since 1970, as records carry them."""
        ...

    def call_later(self, delay: int, callback: Callable[[], None]) -> Timer:
        """Calls `callback` on the broker's loop after `delay` milliseconds, unless cancelled."""
        ...


class LoopClock(Clock):
    """The system's two clocks, and the timers of the running event loop, which go by the monotonic one.

    `now` begins at the wall time of the start. Soon after a machine's own start the bare monotonic clock is smaller
    than a session timeout, and a time of 0, "never", would look recent.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = time.time_ns() - time.monotonic_ns()

    def now(self) -> Ms:
        return Ms((self._begun + time.monotonic_ns()) // 1_000_000)

    def wall_time(self) -> WallTime:
        return WallTime(time.time_ns() // 1_000_000)

    def call_later(self, delay: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay / 1000, callback)
