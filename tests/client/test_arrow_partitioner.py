"""Keys go where the Java producer sends them; rows without a key take turns, a batch each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as oracle

from equipoise.client.producer.arrow_partitioner import ArrowStickyPartitioner, by_key, murmur2


def expected(keys: list[bytes]) -> list[int]:
    return [oracle(key) & 0xFFFFFFFF for key in keys]


@given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.integers(0, 5))
@settings(max_examples=300, deadline=None)
def test_the_hash_is_that_of_kafkas_clients(keys: list[bytes | None], offset: int) -> None:
    column = pa.array([*[b"before"] * offset, *keys, b"after"], pa.binary()).slice(offset, len(keys))
    hashes = [hash_ for hash_, key in zip(murmur2(column).tolist(), keys, strict=True) if key is not None]
    assert hashes == expected([key for key in keys if key is not None])


@pytest.mark.parametrize("length", range(14))
def test_keys_of_one_length(length: int) -> None:
    keys = [bytes([number] * length) for number in range(40)]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == expected(keys)


def test_a_few_long_keys_among_short_ones() -> None:
    keys = [*(str(number).encode() for number in range(100)), b"\xff" * 100_003, b"z" * 50_001]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == expected(keys)


def test_text_is_hashed_as_its_bytes() -> None:
    assert murmur2(pa.array(["grün"], pa.string())).tolist() == expected(["grün".encode()])


def test_the_partition_is_the_hash_without_its_sign() -> None:
    keys = [str(number).encode() for number in range(1000)]
    assert by_key(pa.array(keys, pa.binary()), 7).tolist() == [(hash_ & 0x7FFFFFFF) % 7 for hash_ in expected(keys)]


def test_rows_without_a_key_fill_one_batch_after_the_other() -> None:
    sticky = ArrowStickyPartitioner()
    first = sticky.take(np.full(25, 100), 3, 1000)
    second = sticky.take(np.full(10, 100), 3, 1000)
    chosen = [*first, *second]
    runs = [chosen[at : at + 10] for at in range(0, 35, 10)]
    assert [len(set(run)) for run in runs] == [1, 1, 1, 1]
    assert [(run[0] - chosen[0]) % 3 for run in runs] == [0, 1, 2, 0]


def test_no_rows_take_no_turn() -> None:
    sticky = ArrowStickyPartitioner()
    before = sticky.take(np.full(3, 100), 5, 1000)
    assert sticky.take(np.array([], np.int64), 5, 1000).tolist() == []
    assert sticky.take(np.full(7, 100), 5, 1000).tolist() == [before[0]] * 7
