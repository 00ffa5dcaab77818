"""A thread with an asyncio loop of its own, for those who block: heartbeats go on while the application works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """What it returns or raises; TimeoutError when the seconds are up. It never goes on without its caller, also
        if that one was interrupted: by Ctrl-C, or by the SIGTERM with which Spark ends a source."""
        future = self.begin(work)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not to be had on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
