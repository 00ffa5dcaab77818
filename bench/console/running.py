"""A console in a thread of this process, fed by hand: for pictures, figures and tests of the page."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.request import urlopen

from equipoise.console.web.app import make_app, new_live
from equipoise.console.web.live import Live
from equipoise.console.web.serving import Listen, serving
from equipoise.views.model import ClusterView
from equipoise.watching.watcher import wall_time

WINDOW_MS = 6 * 3_600_000
_PATIENCE_S = 60


def until(page: Any, expression: str) -> None:
    """Waits until an expression is true in a page. Playwright's own wait evaluates text in the page, which the policy
    of the console forbids."""
    ends = time.monotonic() + _PATIENCE_S
    while not page.evaluate(expression):
        if time.monotonic() > ends:
            raise TimeoutError(expression)
        time.sleep(0.002)


def await_journal(address: str, group_id: str) -> None:
    """Waits until a console has read the past: before, it shows a group in part."""
    ends = time.monotonic() + _PATIENCE_S * 2
    while True:
        with suppress(OSError), urlopen(f"{address}/api/groups/{group_id}", timeout=_PATIENCE_S) as answer:
            if json.load(answer)["source"] == "journal":
                return
        if time.monotonic() > ends:
            raise TimeoutError("the console does not read the journal")
        time.sleep(0.05)


class FedConsole:
    """What a test feeds. Its methods may be called by any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, live: Live, address: str) -> None:
        self.address = address
        self._loop = loop
        self._live = live

    def update(self, cluster: ClusterView) -> None:
        """The pages have it when this returns."""
        self.do(lambda live: live.update(cluster))

    def do(self, action: Callable[[Live], None]) -> None:
        """In the console's own thread."""

        async def act() -> None:
            action(self._live)

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(30)


@contextmanager
def fed_console(now: Callable[[], int] = wall_time, *, window_ms: int = WINDOW_MS) -> Iterator[FedConsole]:
    """A console on a free port of 127.0.0.1, until the block ends."""
    ready: list[FedConsole] = []
    is_ready, over = threading.Event(), asyncio.Event()

    async def run() -> None:
        live = new_live(window_ms)
        app = make_app(live, "localhost:9092", now=now)
        try:
            async with serving(app, Listen(port=0)) as port:
                ready.append(FedConsole(asyncio.get_running_loop(), live, f"http://127.0.0.1:{port}"))
                is_ready.set()
                await over.wait()
                live.close()
        finally:
            is_ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    is_ready.wait(60)
    try:
        yield ready[0]
    finally:
        ready[0]._loop.call_soon_threadsafe(over.set)
        thread.join(60)
