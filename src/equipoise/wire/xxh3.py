"""XXH3 (64 bits, no seed), the hash that Kafka writes into the records of `consumer` groups (KIP-1101).

The brokers compare it with what they compute themselves. With another function a group would be taken for one whose
topics have changed when its log moves from one broker to the other. `xxh3_long.py` has inputs of more than 240 bytes.
"""

from __future__ import annotations

import struct

MASK = (1 << 64) - 1
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_MIX_1, _MIX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_TINY, _SMALL, _SHORT, _MIDDLE, _LONG = 3, 8, 16, 128, 240
START = (_PRIME32_3, PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, PRIME32_1)


def xxh3_64(data: bytes) -> int:
    """The hash as an unsigned number."""
    size = len(data)
    if size > _LONG:
        from equipoise.wire.xxh3_long import xxh3_64_of_long  # it needs what is here

        return xxh3_64_of_long(data)
    if size > _MIDDLE:
        return _of_240(data)
    if size > _SHORT:
        return _of_128(data)
    if size > _SMALL:
        return _of_16(data)
    return _of_8(data) if size > _TINY else _of_3(data)


def _word(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<Q", data, at)[0]
    return value


def secret_at(at: int) -> int:
    """A word of the secret."""
    return _word(SECRET, at)


def fold(one: int, other: int) -> int:
    """Both halves of a product of 128 bits in one word."""
    product = one * other
    return (product ^ product >> 64) & MASK


def avalanche(value: int) -> int:
    """Every bit of the value changes every bit of the result."""
    value ^= value >> 37
    value = value * _MIX_1 & MASK
    return value ^ value >> 32


def _old_avalanche(value: int) -> int:
    """Of XXH64."""
    value ^= value >> 33
    value = value * _PRIME64_2 & MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & MASK
    return value ^ value >> 32


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & MASK


def _of_3(data: bytes) -> int:
    size = len(data)
    if not size:
        return _old_avalanche(secret_at(56) ^ secret_at(64))
    combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
    first, second = struct.unpack_from("<II", SECRET)
    return _old_avalanche(combined ^ first ^ second)


def _of_8(data: bytes) -> int:
    first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
    value = last + (first << 32) ^ secret_at(8) ^ secret_at(16)
    value ^= _rotated(value, 49) ^ _rotated(value, 24)
    value = value * _MIX_2 & MASK
    value ^= (value >> 35) + len(data)
    value = value * _MIX_2 & MASK
    return value ^ value >> 28


def _of_16(data: bytes) -> int:
    low = _word(data, 0) ^ secret_at(24) ^ secret_at(32)
    high = _word(data, len(data) - 8) ^ secret_at(40) ^ secret_at(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return avalanche(len(data) + swapped + high + fold(low, high) & MASK)


def _mix(data: bytes, at: int, secret: int) -> int:
    return fold(_word(data, at) ^ secret_at(secret), _word(data, at + 8) ^ secret_at(secret + 8))


def _of_128(data: bytes) -> int:
    size = len(data)
    found = size * PRIME64_1
    for step in range((size - 1) // 32 + 1):
        found += _mix(data, 16 * step, 32 * step) + _mix(data, size - 16 * (step + 1), 32 * step + 16)
    return avalanche(found & MASK)


def _of_240(data: bytes) -> int:
    size = len(data)
    found = size * PRIME64_1 + sum(_mix(data, 16 * step, 16 * step) for step in range(8))
    found = avalanche(found & MASK)
    found += sum(_mix(data, 16 * step, 16 * (step - 8) + 3) for step in range(8, size // 16))
    return avalanche(found + _mix(data, size - 16, 136 - 17) & MASK)
