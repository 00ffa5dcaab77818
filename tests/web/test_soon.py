"""A rebalance of real clients is on the page within a second, with its reason and the right owners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.sync_api import Browser

from bench.console.soon import shown_after
from equipoise.console.web import source

SECOND_MS = 1_000


def test_a_rebalance_is_on_the_page_within_a_second(chromium: Browser) -> None:
    """The console of this test asks nothing after its start: all that the page shows, the journal has pushed. So no
    interval can fall well by chance, and the quickest of some rebalances is what the product itself takes. The others
    have waited for the machine, which may be busy."""
    shown = shown_after(chromium, 3)
    assert len(shown.after_ms) >= 6  # a join and a leave each
    assert 0 <= min(shown.after_ms) < SECOND_MS
    assert "(client second, 127.0.0.1) joined" in shown.why
    assert shown.owners == ["first"] * 3 + ["second"] * 3


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


def test_no_pause_in_the_way_is_longer() -> None:
    """Views of a busy cluster may take time: the pause after them has an end."""
    assert source.LONGEST_PAUSE_S * 1000 <= SECOND_MS / 2
