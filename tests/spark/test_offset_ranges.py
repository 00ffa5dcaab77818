"""Ranges of offsets, cut and dealt out to tasks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.spark.options import ConsumerStrategy, OffsetRangeLimit, SourceOptions
from equipoise.spark.settings import ONE_MACHINE
from equipoise.spark.source.offset_ranges import OffsetRange, plan

OPTIONS = SourceOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}, streaming=False)
COLUMNS = ("key", "value")
CORES = 2


@pytest.fixture(autouse=True, scope="module")
def _two_cores() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)), raising=False)
        patch.delenv(ONE_MACHINE, raising=False)
        yield


def sized(*sizes: int, start: int = 100) -> list[OffsetRange]:
    return [OffsetRange("t", number, start, start + size) for number, size in enumerate(sizes)]


def tasks_of(ranges: list[OffsetRange], **options: Any) -> list[tuple[OffsetRange, ...]]:
    return [task.ranges for task in plan(ranges, replace(OPTIONS, **options), COLUMNS)]


def test_as_many_tasks_as_partitions_where_that_is_few() -> None:
    assert tasks_of(sized(50_000, 60_000)) == [(OffsetRange("t", 1, 100, 60_100),), (OffsetRange("t", 0, 100, 50_100),)]


def test_small_ranges_share_the_tasks_of_the_cores() -> None:
    shares = tasks_of(sized(*[10_000] * 16))
    assert [len(share) for share in shares] == [4] * 2 * CORES
    assert all(list(share) == sorted(share) for share in shares)


def test_a_handful_of_records_is_one_task() -> None:
    assert tasks_of(sized(*[10] * 16)) == [tuple(sized(*[10] * 16))]


def test_large_ranges_do_not() -> None:
    assert len(tasks_of(sized(*[1_000_000] * 16))) == 16


def test_on_one_machine_the_cores_have_a_task_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ONE_MACHINE, "1")
    assert [len(share) for share in tasks_of(sized(*[10_000] * 16))] == [8] * CORES
    assert [len(share) for share in tasks_of(sized(*[100_000] * 16))] == [8] * CORES
    assert len(tasks_of(sized(*[500_000] * 16))) == 8  # of a million records: one that fails repeats no more
    assert len(tasks_of(sized(*[10_000] * 16), min_partitions=5)) == 5


def test_a_large_one_is_left_alone_with_its_task() -> None:
    shares = tasks_of(sized(90_000, *[100] * 15))
    assert (OffsetRange("t", 0, 100, 90_100),) in shares


def test_empty_ranges_have_no_task() -> None:
    assert tasks_of(sized(0, -5)) == []
    assert tasks_of([]) == []


def test_more_tasks_than_partitions_if_asked_for() -> None:
    shares = tasks_of(sized(90, 30), min_partitions=4)
    assert sorted(piece for (piece,) in shares) == [
        OffsetRange("t", 0, 100, 130),
        OffsetRange("t", 0, 130, 160),
        OffsetRange("t", 0, 160, 190),
        OffsetRange("t", 1, 100, 130),
    ]


def test_no_more_records_in_a_task_than_allowed() -> None:
    shares = tasks_of(sized(10, 3), max_records_per_partition=4)
    assert sorted(piece.size for (piece,) in shares) == [3, 3, 3, 4]


def test_a_task_carries_no_more_than_it_needs() -> None:
    options = replace(OPTIONS, starting=OffsetRangeLimit(offsets={}), include_headers=True)
    (task,) = plan(sized(5), options, COLUMNS)
    assert (task.options.strategy, task.columns) == (ConsumerStrategy(), COLUMNS)
    assert task.options.include_headers
    assert pickle.loads(pickle.dumps(task)) == task


def test_ranges_say_what_they_are() -> None:
    assert str(OffsetRange("t", 3, 5, 9)) == "t-3 [5, 9)"


@given(
    sizes=st.lists(st.integers(0, 300_000), max_size=12),
    least=st.none() | st.integers(1, 40),
    most=st.none() | st.integers(10_000, 300_000),
)
def test_every_offset_once_whatever_is_asked(sizes: list[int], least: int | None, most: int | None) -> None:
    ranges = sized(*sizes)
    shares = tasks_of(ranges, min_partitions=least, max_records_per_partition=most)
    pieces = sorted(piece for share in shares for piece in share)
    for one in ranges:
        mine = [piece for piece in pieces if piece.partition == one.partition]
        assert sum(piece.size for piece in mine) == one.size
        assert all(before.end == after.start for before, after in pairwise(mine))
    assert all(share for share in shares)
    assert len(shares) >= min(least or 0, sum(sizes))
    assert most is None or all(sum(piece.size for piece in share) <= most for share in shares)


def test_cores_are_counted_where_affinity_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert len(tasks_of(sized(*[6_000] * 16))) == 2
