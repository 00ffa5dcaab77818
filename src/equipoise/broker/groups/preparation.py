"""Loads numpy for the first target of mixed subscriptions, which waits for it: on the loop the import would hold up
everybody for a tenth of a second. Beside the loop it takes half of the interpreter's time, so that a crowd that joins
with equal subscriptions would be noticed by others. A broker without such targets never loads it, nor takes its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from threading import Thread

log = logging.getLogger(__name__)

_BALANCER = "equipoise.assignors.sticky_core.plan"


class Preparation:
    """The import, in a thread of its own. `done` is called on the loop."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._thread: Thread | None = None
        self.is_done = _BALANCER in sys.modules

    def begin(self) -> None:
        """With the first group that may need it. Later calls do nothing."""
        if self.is_done or self._thread is not None:
            return
        loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._load, args=(loop,), name="equipoise-preparation", daemon=True)
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):  # no room for a thread: the target will load it
            self._thread = None
            self._end()

    def _load(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            import_module(_BALANCER)
        except Exception:
            log.exception("targets of mixed subscriptions cannot be computed")
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self.is_done = True
        self._done()

    def end(self) -> None:
        """Waits for the thread: a process must not end in the middle of an import."""
        if self._thread is not None:
            self._thread.join()
