"""The broker's only source of time. Tests put another clock in its place.

There are two times, because the wall clock may be set while the broker runs. `now` only moves forward, with the timers:
it counts every deadline, session and pause. `wall_time` is written into records, and compared with earlier stamps
(retention, expiry of offsets). It decides nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NewType, Protocol

from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.errors import UsageError

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


class VirtualClock(Clock):
    """For tests: real time, and jumps ahead. `Broker(clock=VirtualClock())` and `clock.advance(days=8)`.

    After a jump everything that has become due happens, in the order of its deadlines and once: it is as if the broker
    had slept so long, and all its clients with it. Sessions that are shorter are over. A broker that is started again
    with the same clock goes on at its time.
    """

    def __init__(self) -> None:
        self._ahead = 0  # of real time, in ms
        self._timers: set[_VirtualTimer] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._real: LoopClock | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """The clock is that of a broker on this loop. UsageError: it is another one's."""
        if self._loop is not None and self._loop.is_running() and self._loop is not loop:
            raise UsageError("this VirtualClock belongs to a broker that is running: give each a clock of its own")
        self._loop, self._timers = loop, set()
        self._real = self._real or LoopClock(loop)

    def now(self) -> Ms:
        return Ms(self._running.now() + self._ahead)

    def wall_time(self) -> WallTime:
        return WallTime(self._running.wall_time() + self._ahead)

    def call_later(self, delay: int, callback: Callable[[], None]) -> Timer:
        timer = _VirtualTimer(self._timers, self.now() + delay, callback)
        timer.plan(self._loop, delay)
        return timer

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Moves the time on, and returns when all that is due has happened. From any thread but the broker's."""
        ms = round(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) / timedelta(milliseconds=1))
        if ms < 0:
            raise UsageError("time only moves forward")
        if self._loop is None or not self._loop.is_running():
            raise UsageError("no broker runs with this clock: start one with Broker(clock=...)")
        asyncio.run_coroutine_threadsafe(self._advance(ms), self._loop).result()

    async def _advance(self, ms: int) -> None:
        self._ahead += ms
        now = self.now()
        for timer in sorted(self._timers, key=lambda one: one.at):
            if timer.at <= now:
                timer.fire()
            else:
                timer.plan(self._loop, timer.at - now)
        await asyncio.sleep(0)  # what they have begun goes on first

    @property
    def _running(self) -> LoopClock:
        if self._real is None:
            raise UsageError("a VirtualClock has a time when a broker has it: Broker(clock=...)")
        return self._real


class _VirtualTimer(Timer):
    """A callback and its deadline, planned on the loop for as long as real time has yet to go."""

    def __init__(self, timers: set[_VirtualTimer], at: int, callback: Callable[[], None]) -> None:
        self.at = at
        self._timers = timers
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None
        timers.add(self)

    def plan(self, loop: asyncio.AbstractEventLoop | None, delay: int) -> None:
        """Anew, if it was before."""
        assert loop is not None
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_later(delay / 1000, self.fire)

    def fire(self) -> None:
        """Its time has come."""
        if self in self._timers:
            self.cancel()
            self._callback()

    def cancel(self) -> None:
        self._timers.discard(self)
        if self._handle is not None:
            self._handle.cancel()
