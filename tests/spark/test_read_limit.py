"""How much goes into a batch, by the rules of Spark's own connector."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from equipoise.member import TopicPartition
from equipoise.spark.source.read_limit import BatchDelay, available, rate_limit

Sizes = dict[TopicPartition, int]
SIZES = st.dictionaries(st.builds(TopicPartition, st.just("t"), st.integers(0, 20)), st.integers(0, 10**12), min_size=1)


def share_of(sizes: list[int], limit: int | None) -> list[int]:
    """Of partitions that begin at offset 100."""
    positions = {TopicPartition("t", number): 100 for number in range(len(sizes))}
    ends = {TopicPartition("t", number): 100 + size for number, size in enumerate(sizes)}
    return [at - 100 for at in rate_limit(positions, ends, limit).values()]


def test_without_a_limit_all_of_it() -> None:
    assert share_of([3, 0, 7], None) == [3, 0, 7]


def test_less_than_the_limit_is_not_touched() -> None:
    assert share_of([3, 0, 7], 10) == [3, 0, 7]


def test_each_by_its_share() -> None:
    assert share_of([100, 300, 600], 100) == [10, 30, 60]


def test_a_small_one_is_not_starved() -> None:
    assert share_of([1, 1_000_000], 10) == [1, 9]
    assert share_of([5, 5, 5], 1) == [1, 1, 1]


def test_fractions_are_cut_off() -> None:
    assert share_of([15, 15], 11) == [5, 5]


@given(sizes=SIZES, limit=st.integers(1, 10**6))
def test_as_the_official_connector_reckons(sizes: Sizes, limit: int) -> None:
    positions = dict.fromkeys(sizes, 50)
    found = rate_limit(positions, {one: 50 + size for one, size in sizes.items()}, limit)
    total = sum(sizes.values())
    for one, size in sizes.items():
        taken = found[one] - 50
        if total <= limit:
            assert taken == size
        elif size == 0:
            assert taken == 0
        else:
            exact = limit * (size / total)
            rounded = math.ceil(exact) if exact < 1 else math.floor(exact)
            assert abs(taken - min(size, rounded)) <= 1  # the order of multiplications may round otherwise
            assert 1 <= taken <= size


def test_what_is_available_leaves_out_the_empty_and_the_unknown() -> None:
    a, b, c = (TopicPartition("t", number) for number in range(3))
    assert available({a: 5, b: 5, c: 5}, {a: 9, b: 5}) == {a: 4}


def test_the_first_batch_waits_for_nothing() -> None:
    assert BatchDelay(1_000, 60_000).is_over(1, now_ms=12_345)


def test_the_next_waits_for_enough_or_for_long_enough() -> None:
    delay = BatchDelay(100, 60_000)
    assert delay.is_over(1, 0)
    assert not delay.is_over(99, 1_000)
    assert delay.is_over(100, 2_000)  # enough: its time begins anew
    assert not delay.is_over(99, 61_999)
    assert delay.is_over(1, 62_000)  # late
    assert not delay.is_over(99, 62_001)


def test_without_minimum_nothing_waits() -> None:
    delay = BatchDelay(None, 60_000)
    assert delay.is_over(1, 0)
    assert delay.is_over(1, 1)
