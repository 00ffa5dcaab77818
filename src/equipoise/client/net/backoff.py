"""Pauses of a client between attempts, never the same for two clients."""

from __future__ import annotations

import random

from equipoise.member.backoff import LEAST_JITTER, MOST_JITTER, backoff_ms

_random = random.Random()  # the module's own belongs to the application, which may have seeded it


def jitter() -> float:
    """A number by which a pause is multiplied."""
    return _random.uniform(LEAST_JITTER, MOST_JITTER)


class Backoff:
    """By the two settings of a pause: after the first failure, and the longest."""

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return backoff_ms(failures, self._first_ms, self._longest_ms) / 1000 * jitter()
