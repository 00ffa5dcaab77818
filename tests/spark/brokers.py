"""Brokers that a test bends at will, on a loop and a thread of their own: what asks them here blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.client.fakes import FakeCluster


@contextmanager
def aside(fake: FakeCluster) -> Iterator[FakeCluster]:
    loop = asyncio.SelectorEventLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(fake.__aenter__(), loop).result()
    try:
        yield fake
    finally:
        asyncio.run_coroutine_threadsafe(fake.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
