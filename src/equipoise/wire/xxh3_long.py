"""XXH3 of long inputs, a block of 1,024 bytes at a time: a topic with 20,000 partitions has 80 KB.

Without numpy, whose import takes as long as a megabyte takes here, and would be for this alone in most brokers.
"""

from __future__ import annotations

import struct

from equipoise.wire.xxh3 import MASK, PRIME32_1, PRIME64_1, SECRET, START, avalanche, fold, secret_at

_LANES = 8
_STRIPE, _STRIPES_A_BLOCK = 8 * _LANES, 16
_BLOCK = _STRIPE * _STRIPES_A_BLOCK
_LOW_HALF = 0xFFFFFFFF


def _words_at(secret: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{_LANES}Q", SECRET, secret)


_KEYS = tuple(word for stripe in range(_STRIPES_A_BLOCK) for word in _words_at(8 * stripe))
_KEYS_BETWEEN, _KEYS_AT_THE_END = _words_at(len(SECRET) - _STRIPE), _words_at(len(SECRET) - _STRIPE - 7)


def xxh3_64_of_long(data: bytes) -> int:
    """The hash of more than 240 bytes, by eight sums of 64 bits that wrap."""
    size, sums = len(data), list(START)
    blocks = (size - 1) // _BLOCK
    for block in range(blocks):
        _accumulate(sums, data[block * _BLOCK : (block + 1) * _BLOCK], _KEYS)
        sums = [(one ^ one >> 47 ^ key) * PRIME32_1 & MASK for one, key in zip(sums, _KEYS_BETWEEN, strict=True)]
    rest = (size - 1 - blocks * _BLOCK) // _STRIPE
    _accumulate(sums, data[blocks * _BLOCK : blocks * _BLOCK + rest * _STRIPE], _KEYS)
    _accumulate(sums, data[-_STRIPE:], _KEYS_AT_THE_END)
    found = size * PRIME64_1 + sum(
        fold(sums[lane] ^ secret_at(11 + 8 * lane), sums[lane + 1] ^ secret_at(19 + 8 * lane))
        for lane in range(0, _LANES, 2)
    )
    return avalanche(found & MASK)


def _accumulate(sums: list[int], data: bytes, keys: tuple[int, ...]) -> None:
    """Adds some stripes; in which order does not matter."""
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    keyed = [word ^ key for word, key in zip(words, keys, strict=False)]
    products = [(one & _LOW_HALF) * (one >> 32) for one in keyed]
    for lane in range(_LANES):
        sums[lane] = sums[lane] + sum(products[lane::_LANES]) + sum(words[lane ^ 1 :: _LANES]) & MASK
