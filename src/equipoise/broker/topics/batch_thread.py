"""A thread that decodes batches of clients, and the tasks that wait for it.

A few kilobytes of compressed records can be millions of records: on the loop they would delay all other clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Pause = Callable[[], None]


class WorkStopped(Exception):
    """Ends work on the thread half-way."""


class BatchThread:
    """One piece of work at a time, so that memory is bounded by the largest of them."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"equipoise-{name}")
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self) -> None:
        """Starts the thread before it is needed: later there may be no room for one."""
        try:
            self._thread.submit(let_others_run).result()
        except RuntimeError as error:
            raise UsageError(f"{error}: raise the limit of processes (ulimit -u), or free memory") from None

    async def run(self, work: Callable[[Pause], Result], is_wanted: Callable[[], bool] = lambda: True) -> Result:
        """Runs `work(pause)` on the thread. It calls `pause` every millisecond or two, which ends cancelled work."""

        def pause() -> None:
            if self._closed or not is_wanted():
                raise WorkStopped
            let_others_run()

        return await asyncio.get_running_loop().run_in_executor(self._thread, work, pause)

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """A task that uses `run`. `close` ends it."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancels its tasks and ends the thread."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(cancel_futures=True)


def let_others_run() -> None:
    """Gives the loop's thread the interpreter at once, instead of when the switch interval is over."""
    time.sleep(0)
