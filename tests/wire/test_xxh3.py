"""XXH3 beside numbers of the reference implementation, for every length at which the algorithm changes."""

from __future__ import annotations

import random

import pytest

from equipoise.wire.xxh3 import xxh3_64

# The n-th is of n bytes, drawn one after the other from random.Random(1): b'', 1 byte, 2 bytes and so on.
REFERENCE = {
    0: 3244421341483603138,
    1: 2844895380948538806,
    2: 6333315998403609481,
    3: 3518000717919726067,
    4: 6649576992926830069,
    5: 14098079789220918986,
    8: 2434025682355405328,
    9: 7994744164517767732,
    12: 4736101072814523062,
    16: 2338114931390121892,
    17: 11182207978341776249,
    32: 4743075421689513285,
    33: 1885487054923027271,
    64: 6460461284951624512,
    65: 1341721995258757388,
    96: 15602802441900391526,
    97: 12947095976629559146,
    128: 8317135539342420103,
    129: 11494273899855046251,
    176: 4703956049976239843,
    240: 15757544060989413306,
    241: 15431615349941380196,
    256: 1345189807655515368,
    320: 7868414353201291136,
    512: 13214136024963861839,
}


def inputs() -> dict[int, bytes]:
    chance = random.Random(1)
    return {size: chance.randbytes(size) for size in range(600)}


@pytest.mark.parametrize("size", REFERENCE)
def test_the_reference(size: int) -> None:
    assert xxh3_64(inputs()[size]) == REFERENCE[size]


LONG = dict(
    zip(
        (1023, 1024, 1025, 2048, 4097, 80000),
        (
            6056379577021400155,
            17451153734556927978,
            4897780765970506805,
            4406290607994233233,
            17895723497736326665,
            14906374909805049997,
        ),
        strict=True,
    )
)


@pytest.mark.parametrize("size", LONG)
def test_blocks(size: int) -> None:
    assert xxh3_64(bytes(number * 7 % 251 for number in range(size))) == LONG[size]
