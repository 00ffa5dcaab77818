"""The partition of `__consumer_offsets`, and so the shard, that keeps a group."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, wrapping at 32 bits, signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@lru_cache(maxsize=1 << 14)  # every request of a group asks
def partition_for(group_id: str, partitions: int) -> int:
    """Rule 5.1. Kafka: GroupCoordinatorService.partitionFor."""
    value = java_hash(group_id)
    return 0 if value == _INT_MIN else abs(value) % partitions
