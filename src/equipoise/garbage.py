"""Python's garbage collector, at rest while many objects are made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """For work that makes thousands of objects and no garbage, such as imports, or the records of a poll. The collector
    would look through them again and again, for a fifth to a third of the time. It works for all threads or none, so
    that the block must be short."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
