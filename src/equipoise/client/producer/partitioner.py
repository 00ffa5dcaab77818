"""Chooses the partition of a record as the Java producer does.

The murmur2 hash of a key decides (BuiltInPartitioner.partitionForKey), so that records of one key stay in order with
records of other clients. Records without a key fill a batch of one partition, then of another (KIP-794,
BuiltInPartitioner.updatePartitionInfo).
"""

from __future__ import annotations

import random
import struct
from functools import lru_cache

_SEED = 0x9747B28C
_MIX = 0x5BD1E995
_LOW = 0xFFFFFFFF
_CACHED_KEYS = 1 << 16
_random = random.Random()  # the module's own belongs to the application, which may have seeded it


def partition_for_key(key: bytes, partitions: int) -> int:
    """BuiltInPartitioner.partitionForKey."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


@lru_cache(_CACHED_KEYS)
def murmur2(data: bytes) -> int:
    """The 32-bit hash that Kafka's clients give a key."""
    size = len(data)
    whole = size & ~3
    hash_ = _SEED ^ size
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * _MIX & _LOW
        hash_ = hash_ * _MIX & _LOW ^ (word ^ word >> 24) * _MIX & _LOW
    if tail := data[whole:]:
        hash_ = (hash_ ^ int.from_bytes(tail, "little")) * _MIX & _LOW
    hash_ = (hash_ ^ hash_ >> 13) * _MIX & _LOW
    return hash_ ^ hash_ >> 15


class StickyPartitioner:
    """Records without a key: so many bytes to one partition, then to another one, drawn by chance."""

    __slots__ = ("_left", "_partition")

    def __init__(self) -> None:
        self._partition = -1
        self._left = 0

    def take(self, size: int, partitions: int, batch_size: int) -> int:
        """The partition of a record of so many bytes."""
        if self._left <= 0 or self._partition >= partitions:
            self._partition = self._other(partitions)
            self._left = batch_size
        self._left -= size
        return self._partition

    def _other(self, partitions: int) -> int:
        if partitions == 1 or not 0 <= self._partition < partitions:
            return _random.randrange(partitions)
        return (self._partition + 1 + _random.randrange(partitions - 1)) % partitions
