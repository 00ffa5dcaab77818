"""The broker's only source of time. Tests and the simulator put another clock in its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NewType, Protocol

Ms = NewType("Ms", int)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> Ms:
        """Milliseconds since 1970, as records carry them."""
        ...

    def call_later(self, delay: int, callback: Callable[[], None]) -> Timer:
        """Calls `callback` on the broker's loop after `delay` milliseconds, unless cancelled."""
        ...


class LoopClock:
    """Wall time, and the timers of the running event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> Ms:
        return Ms(time.time_ns() // 1_000_000)

    def call_later(self, delay: int, callback: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay / 1000, callback)
