"""What a broker needs soon, and not for its first answers: the coordinators, and most handlers. Their modules would be
half the time of a start.

A broker that is a process of its own imports them when it accepts connections, one module in each turn of the loop, and
then opens the coordinators. Clients are served meanwhile. Who asks for what is not there yet waits for its import only.
A broker in a thread has them all before it starts: two threads that import at the same time can meet half a module.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Callable
from importlib import import_module

from equipoise.broker.handlers import HANDLERS
from equipoise.garbage import without_collection

_SHORTAGES = OSError, MemoryError  # of descriptors, too: a later attempt may succeed
_AGAIN_S = 0.05

# Each imports what it needs; in this order none takes longer than some milliseconds.
_COORDINATORS = (
    "equipoise.coordinator.events",
    "equipoise.coordinator.step",
    "equipoise.coordinator.classic.group",
    "equipoise.coordinator.consumer.group",
    "equipoise.coordinator.journal",
    "equipoise.coordinator.changes",
    "equipoise.coordinator.consumer.regexes",
    "equipoise.coordinator.admin",
    "equipoise.coordinator.shard",
    "equipoise.broker.groups.coordinator",
    "equipoise.coordinator.transactions.events",
    "equipoise.coordinator.transactions.metadata",
    "equipoise.broker.transactions.coordinator",
)


def missing_modules() -> list[str]:
    """The names of those that are still to be imported."""
    handlers = (f"equipoise.broker.handlers.{handler.name}" for handler in HANDLERS.values())
    return [name for name in (*_COORDINATORS, *handlers) if name not in sys.modules]


def import_all() -> None:
    """All at once."""
    with without_collection():
        for name in missing_modules():
            import_module(name)


class LateImports:
    """Those of one broker. `done` is called when all are there, which may be at once."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._missing: deque[str] = deque()

    def begin(self) -> None:
        """The broker accepts connections."""
        self._missing = deque(missing_modules())
        if self._missing:
            asyncio.get_running_loop().call_soon(self._import_next)
        else:
            self._done()

    def finish(self) -> None:
        """All that is left, at once: the broker stops. What cannot be read now is not needed any more."""
        left, self._missing = self._missing, deque()
        if left:
            try:
                import_all()
            except _SHORTAGES:
                return
            self._done()

    def _import_next(self) -> None:
        if not self._missing:
            return
        loop = asyncio.get_running_loop()
        try:
            with without_collection():
                import_module(self._missing[0])
        except _SHORTAGES:
            loop.call_later(_AGAIN_S, self._import_next)
            return
        self._missing.popleft()
        if self._missing:
            loop.call_soon(self._import_next)
        else:
            if gc.get_freeze_count():  # what was imported before is spared the collector's looks, and so is this
                gc.freeze()
            self._done()
