"""Pauses between attempts: doubling with each failure, bounded (KIP-580, ExponentialBackoff.backoff). Pure."""

from __future__ import annotations

LEAST_JITTER, MOST_JITTER = 0.8, 1.2  # by which a pause is multiplied, so that no two clients come together
_MOST_DOUBLINGS = 30


def backoff_ms(failures: int, first_ms: int, longest_ms: int) -> int:
    """The pause after so many failures in a row, before jitter."""
    return min(first_ms << min(failures - 1, _MOST_DOUBLINGS), longest_ms) if failures else 0
