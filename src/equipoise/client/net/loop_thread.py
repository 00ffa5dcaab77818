"""A thread with its own asyncio loop, for blocking callers: heartbeats go on while the application works."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Wrapper = Callable[[Coroutine[Any, Any, Result]], Coroutine[Any, Any, Result]]


class LoopThread:
    """Begins at once; `end` waits for it."""

    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self._is_ending = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.loop.close()
            raise UsageError(f"{error}: raise the limit of processes (ulimit -u), or free memory") from None

    def _serve(self) -> None:
        """A SystemExit or KeyboardInterrupt of a task would end the loop, on which heartbeats and callers depend."""
        while not self._is_ending:
            try:
                self.loop.run_forever()
            except BaseException:
                log.exception("%s: a task has tried to end its loop, which goes on", self._thread.name)

    def begin(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Runs `work` on the loop, and returns at once."""
        self.check_process(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(
        self, work: Coroutine[Any, Any, Result], timeout: float | None = None, *, within: Wrapper[Result] | None = None
    ) -> Result:
        """What it returns or raises; TimeoutError when the seconds are up. It never goes on without its caller, also
        if that one was interrupted: by Ctrl-C, or by the SIGTERM with which Spark ends a source. `within` is awaited
        in its place, and awaits it."""
        self.check_process(work)
        future = self.begin(work if within is None else within(work))
        try:
            return future.result(timeout)
        finally:
            future.cancel()
            if within is not None and getcoroutinestate(work) == CORO_CREATED:
                work.close()  # interrupted before it began: nobody will await it

    def end(self) -> None:
        """Stops the loop when what it is doing is done."""
        self.check_process()
        self._is_ending = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def check_process(self, work: Coroutine[Any, Any, object] | None = None) -> None:
        """UsageError in a child of the process; `work` is closed then."""
        if os.getpid() != self._process:
            if work is not None:
                work.close()
            raise forked()


def forked() -> UsageError:
    """The error after a fork: the child has no copy of the thread, and would wait for it for ever. What the loop would
    end in the child, it would end in the parent too."""
    return UsageError("this client was made in another process: after a fork, make a new one")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not to be had on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
