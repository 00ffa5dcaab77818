"""What single pages show and nobody else needs: it is asked for only while such a page is open.

A page asks for it again and again while it is open, and shows what is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

LIVES_S = 15.0  # after the last page that wanted it
MOST = 32  # things that are kept: an address of a page may name anything
_PAUSE_S = 0.5
Found = TypeVar("Found")


class Wanted(Generic[Found]):
    """Things by name. `ask` brings one; it raises nothing."""

    def __init__(self, ask: Callable[[str], Awaitable[Found]], every_s: float, changed: Callable[[], None]) -> None:
        self._ask = ask
        self._every_s = every_s
        self._changed = changed
        self._known: dict[str, Found] = {}
        self._asked: dict[str, float] = {}
        self._wanted: dict[str, float] = {}  # until when
        self._news = asyncio.Event()

    def get(self, name: str) -> Found | None:
        """What is known of it; None: nothing yet. It is wanted from now on."""
        self._wanted.pop(name, None)
        self._wanted[name] = time.monotonic() + LIVES_S
        while len(self._wanted) > MOST:
            del self._wanted[next(iter(self._wanted))]
        self._news.set()
        return self._known.get(name)

    async def keep_asking(self) -> None:
        """Asks for what is wanted, one after the other, until it is cancelled."""
        while True:
            await self._news.wait()
            self._forget()
            for name in [name for name in self._wanted if self._is_due(name)]:
                found = await self._ask(name)
                self._asked[name] = time.monotonic()
                if self._known.get(name) != found:
                    self._known[name] = found
                    self._changed()
            await asyncio.sleep(_PAUSE_S)

    def _is_due(self, name: str) -> bool:
        return time.monotonic() - self._asked.get(name, -self._every_s) >= self._every_s

    def _forget(self) -> None:
        now = time.monotonic()
        self._wanted = {name: until for name, until in self._wanted.items() if until > now}
        for name in self._asked.keys() - self._wanted.keys():
            del self._asked[name], self._known[name]
        if not self._wanted:
            self._news.clear()
