"""The console's source: what a page hears while its watcher changes. No browser: it would have this thread's loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from equipoise.console.web import source


class _Watcher:
    """Says that there is something new when it is told to."""

    def __init__(self) -> None:
        self.version = 0
        self._news = asyncio.Condition()

    async def changed(self, since: int) -> int:
        async with self._news:
            await self._news.wait_for(lambda: self.version != since)
            return self.version

    async def announce(self) -> None:
        async with self._news:
            self.version += 1
            self._news.notify_all()


@pytest.mark.parametrize("steps", range(8))
def test_a_better_source_is_taken_up_though_there_is_news(steps: int) -> None:
    """The task that tells is cancelled then, so many steps of the loop after the news."""

    async def ends() -> bool:
        watcher = _Watcher()
        shown: list[object] = []
        live: Any = type("Live", (), {"update": shown.append})
        rounds: Any = type("Rounds", (), {"view": lambda: None})
        telling = asyncio.create_task(source._tell(watcher, rounds, live))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await watcher.announce()
        for _ in range(steps):
            await asyncio.sleep(0)
        telling.cancel()
        done, _ = await asyncio.wait({telling}, timeout=2)
        telling.cancel()
        return bool(done)

    assert asyncio.run(ends())
