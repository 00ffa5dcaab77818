"""The size of the next batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay.

The rules are those of Spark's own Kafka connector (KafkaMicroBatchStream).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from equipoise.member.partitions import TopicPartition
from equipoise.spark.source.source_offset import PartitionOffsetMap


def available(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> PartitionOffsetMap:
    """How many offsets each partition has to read. Partitions without any are left out."""
    sizes = {one: ends.get(one, at) - at for one, at in positions.items()}
    return {one: size for one, size in sizes.items() if size > 0}


def rate_limit(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int | None
) -> PartitionOffsetMap:
    """Where each partition ends if all together have `limit` offsets, each in proportion to what it has.

    A partition that has anything gets at least one offset, so that large ones do not starve it
    (KafkaMicroBatchStream.rateLimit).
    """
    sizes = available(positions, ends)
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return {one: at + sizes.get(one, 0) for one, at in positions.items()}
    return {one: at + min(_part(sizes.get(one, 0), total, limit), sizes.get(one, 0)) for one, at in positions.items()}


def _part(size: int, total: int, limit: int) -> int:
    exact = limit * size / total
    return math.ceil(exact) if exact < 1 else math.floor(exact)


class BatchDelay:
    """minOffsetsPerTrigger: a batch waits until it has so many offsets, at most for maxTriggerDelay
    (KafkaMicroBatchStream.delayBatch)."""

    def __init__(self, min_offsets: int | None, max_delay_ms: int) -> None:
        self._min_offsets = min_offsets
        self._max_delay_ms = max_delay_ms
        self._last_batch_ms: int | None = None

    def is_over(self, size: int, now_ms: int) -> bool:
        """Whether a batch of this size begins now. The first batch waits for nothing."""
        is_late = self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._max_delay_ms
        if self._min_offsets is None or size >= self._min_offsets or is_late:
            self._last_batch_ms = now_ms
            return True
        return False
