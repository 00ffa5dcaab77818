"""XXH3 of long inputs, a block of 1,024 bytes at a time: a topic with 20,000 partitions has 80 KB."""

from __future__ import annotations

import numpy as np

from equipoise.wire.xxh3 import MASK, PRIME32_1, PRIME64_1, SECRET, START, avalanche, fold, secret_at

_STRIPE, _STRIPES_A_BLOCK = 64, 16
_BLOCK = _STRIPE * _STRIPES_A_BLOCK
Words = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]


def _words_at(secret: int, count: int = 8) -> Words:
    return np.frombuffer(SECRET, "<u8", count, secret)


_KEYS = np.stack([_words_at(8 * stripe) for stripe in range(_STRIPES_A_BLOCK)])
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_NEIGHBOURS = [1, 0, 3, 2, 5, 4, 7, 6]


def xxh3_64_of_long(data: bytes) -> int:
    """The hash of more than 240 bytes, by eight sums of 64 bits that wrap."""
    size = len(data)
    sums = np.array(START, np.uint64)
    blocks = (size - 1) // _BLOCK
    for block in range(blocks):
        _accumulate(sums, data[block * _BLOCK : (block + 1) * _BLOCK], _KEYS)
        sums ^= sums >> np.uint64(47)
        sums ^= _words_at(len(SECRET) - _STRIPE)
        sums *= np.uint64(PRIME32_1)
    rest = (size - 1 - blocks * _BLOCK) // _STRIPE
    _accumulate(sums, data[blocks * _BLOCK : blocks * _BLOCK + rest * _STRIPE], _KEYS[:rest])
    _accumulate(sums, data[-_STRIPE:], _words_at(len(SECRET) - _STRIPE - 7)[np.newaxis])
    ends = [int(one) for one in sums]
    found = size * PRIME64_1 + sum(
        fold(ends[lane] ^ secret_at(11 + 8 * lane), ends[lane + 1] ^ secret_at(19 + 8 * lane))
        for lane in range(0, 8, 2)
    )
    return avalanche(found & MASK)


def _accumulate(sums: Words, data: bytes, keys: Words) -> None:
    """Adds some stripes; in which order does not matter."""
    values = np.frombuffer(data, "<u8").reshape(-1, 8)
    keyed = values ^ keys
    products = (keyed & _LOW_HALF) * (keyed >> _HALF)
    sums += products.sum(axis=0, dtype=np.uint64) + values.sum(axis=0, dtype=np.uint64)[_NEIGHBOURS]
