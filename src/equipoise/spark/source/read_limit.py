"""How much of what is there goes into the next batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay."""

from __future__ import annotations

import math
from collections.abc import Mapping

from equipoise.member.partitions import TopicPartition

Offsets = Mapping[TopicPartition, int]


def available(positions: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Of each partition, how many offsets; those without any are left out."""
    sizes = {one: ends.get(one, at) - at for one, at in positions.items()}
    return {one: size for one, size in sizes.items() if size > 0}


def share(positions: Offsets, ends: Offsets, limit: int | None) -> dict[TopicPartition, int]:
    """Where each partition ends if all together have `limit` offsets, each by the share of what it has.

    One that has anything gets one at least, as in Spark's own connector: so a small one is not starved by large ones.
    """
    sizes = available(positions, ends)
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return {one: at + sizes.get(one, 0) for one, at in positions.items()}
    return {one: at + min(_part(sizes.get(one, 0), total, limit), sizes.get(one, 0)) for one, at in positions.items()}


def _part(size: int, total: int, limit: int) -> int:
    exact = limit * size / total
    return math.ceil(exact) if exact < 1 else math.floor(exact)


class Patience:
    """minOffsetsPerTrigger: a batch waits until it has so many, but not for longer than maxTriggerDelay."""

    def __init__(self, least: int | None, delay_ms: int) -> None:
        self._least = least
        self._delay_ms = delay_ms
        self._since: int | None = None

    def is_enough(self, size: int, now_ms: int) -> bool:
        """The first batch waits for nothing, as in Spark's own connector."""
        is_late = self._since is None or now_ms - self._since >= self._delay_ms
        if self._least is None or size >= self._least or is_late:
            self._since = now_ms
            return True
        return False
