"""Chooses the partition of rows as the Java producer does, for a column of keys at once.

The murmur2 hash of a key decides, so that rows of one key stay in order with records that Java wrote. Rows without a
key fill a batch of one partition, then of the next.
"""

from __future__ import annotations

import random
import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint32]

_SEED = 0x9747B28C
_MIX = 0x5BD1E995
_FEW = 16  # keys left that have so many words: these go one by one, since a step of numpy costs as much as 20 of Python


def by_key(keys: pa.Array, partitions: int) -> Ints:
    """Of each key, its partition; of null, any number."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


class ArrowStickyPartitioner:
    """Rows without a key: so many bytes to one partition, then to the next. It begins anywhere."""

    def __init__(self) -> None:
        self._turn = random.randrange(1 << 16)
        self._filled = 0

    def take(self, sizes: Ints, partitions: int, batch_size: int) -> Ints:
        """The partitions of rows of these sizes."""
        filled = self._filled + np.cumsum(sizes)
        chosen = (self._turn + (filled - sizes) // batch_size) % partitions
        turns, self._filled = divmod(int(filled[-1]) if len(filled) else self._filled, batch_size)
        self._turn += turns
        return chosen


def murmur2(keys: pa.Array) -> Hashes:
    """The hash that Kafka's clients give each key; of null, any.

    Words are mixed in lockstep: the first of all keys, the second of those that have one, and so on.
    """
    keys = keys.cast(pa.binary())
    _, offsets, data = keys.buffers()
    places = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    bytes_ = np.zeros(4, np.uint8) if data is None or data.size < 4 else np.frombuffer(data, np.uint8)
    if data is not None and data.size < 4:
        bytes_[: data.size] = np.frombuffer(data, np.uint8)
    begin, length = places[:-1], np.diff(places)
    order = np.argsort(-(length >> 2), kind="stable")
    hashes = np.empty(len(keys), np.uint32)
    hashes[order] = _murmur2(bytes_, begin[order], length[order])
    return hashes


def _murmur2(data: NDArray[np.uint8], begin: Ints, length: Ints) -> Hashes:
    """Of keys with those of most words first."""
    hashes = np.uint32(_SEED) ^ length.astype(np.uint32)
    words = np.ndarray((len(data) - 3,), "<u4", buffer=data, strides=(1,))
    turns = length >> 2
    descending = -turns
    step = 0
    while active := int(np.searchsorted(descending, -step, "left")):
        if active <= _FEW:
            for row in range(active):
                hashes[row] = _walk(int(hashes[row]), data, int(begin[row]) + 4 * step, int(turns[row]) - step)
            break
        hashes[:active] = hashes[:active] * np.uint32(_MIX) ^ _scrambled(words[begin[:active] + 4 * step])
        step += 1
    return _finished(_with_tail(hashes, data, begin + 4 * turns, length & 3))


def _scrambled(word: Hashes) -> Hashes:
    word = word * np.uint32(_MIX)
    return (word ^ word >> np.uint32(24)) * np.uint32(_MIX)


def _walk(hash_: int, data: NDArray[np.uint8], at: int, count: int) -> int:
    for (word,) in struct.iter_unpack("<I", data[at : at + 4 * count].tobytes()):
        word = word * _MIX & 0xFFFFFFFF
        hash_ = hash_ * _MIX & 0xFFFFFFFF ^ (word ^ word >> 24) * _MIX & 0xFFFFFFFF
    return hash_


def _with_tail(hashes: Hashes, data: NDArray[np.uint8], begin: Ints, left: Ints) -> Hashes:
    for byte in (2, 1, 0):
        rows = left > byte
        hashes[rows] ^= data[begin[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    return np.where(left > 0, hashes * np.uint32(_MIX), hashes)


def _finished(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(_MIX)
    return hashes ^ hashes >> np.uint32(15)
