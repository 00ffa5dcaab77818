"""Warnings about lasting problems: the first after a few seconds, then rarely. Short problems are not logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

log = logging.getLogger(__name__)

FIRST_S = 3.0  # long enough for brokers that restart and topics that are being created
AGAIN_S = 60.0  # after that, doubling
RARELY_S = 900.0


class LastingWarning:
    """`words` is given the seconds that it has lasted. All on the loop."""

    def __init__(self, words: Callable[[float], str], first_s: float | None = None) -> None:
        self._words = words
        self._first = FIRST_S if first_s is None else first_s
        self._since = 0.0
        self._pause = AGAIN_S
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is amiss at the moment."""
        return self._timer is not None

    def begin(self) -> None:
        """It is amiss, perhaps since long."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since, self._pause = loop.time(), AGAIN_S
            self._timer = loop.call_later(self._first, self._speak)

    def end(self) -> None:
        """It is not amiss any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def set(self, is_amiss: bool) -> None:
        """Begins or ends it."""
        if is_amiss:
            self.begin()
        else:
            self.end()

    def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        log.warning("%s", self._words(loop.time() - self._since))
        self._timer = loop.call_later(self._pause, self._speak)
        self._pause = min(2 * self._pause, RARELY_S)


class LastingWarnings:
    """The same by name: of many topics, each has its own."""

    def __init__(self, words: Callable[[str, float], str]) -> None:
        self._words = words
        self._by_name: dict[str, LastingWarning] = {}

    def keep(self, names: set[str]) -> None:
        """These are amiss, and no others any more."""
        for name in self._by_name.keys() - names:
            self._by_name.pop(name).end()
        for name in sorted(names - self._by_name.keys()):
            made = self._by_name[name] = LastingWarning(partial(self._words, name))
            made.begin()
