"""The partition of `__consumer_offsets`, and so the shard, that keeps a group."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(2**31)
_SHORT = 256  # letters


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, wrapping at 32 bits, signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """Rule 5.1. Kafka: GroupCoordinatorService.partitionFor. Every request of a group asks; a name that is kept is
    short, because a client may name any number of groups."""
    return _kept(group_id, partitions) if len(group_id) <= _SHORT else _partition_for(group_id, partitions)


def _partition_for(group_id: str, partitions: int) -> int:
    value = java_hash(group_id)
    return 0 if value == _INT_MIN else abs(value) % partitions


_kept = lru_cache(maxsize=1 << 14)(_partition_for)
