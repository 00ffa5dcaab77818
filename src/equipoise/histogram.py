"""Spans of time, counted by bounds, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Bounds are in seconds; the last count is of spans beyond all bounds."""

    __slots__ = ("bounds_s", "counts", "total_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """A bound belongs to the spans below it (Prometheus's `le`)."""
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.total_s += seconds
