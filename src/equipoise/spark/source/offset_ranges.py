"""Cuts offset ranges, and deals them out to tasks."""

from __future__ import annotations

import heapq
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from equipoise.spark.options import ConsumerStrategy, OffsetRangeLimit, SourceOptions
from equipoise.spark.settings import ONE_MACHINE

# A task costs Spark some 5 ms, in which it could read 10,000 records: fewer are not worth one of their own. Beyond what
# keeps this machine's cores busy a task needs ten times as many: executors elsewhere may have more cores. Where they
# run here too there are no others, and more tasks only divide what is repeated when one fails.
_WORTH_A_CORE = 10_000
_WORTH_A_TASK = 100_000
_WORTH_A_TASK_HERE = 1_000_000
_TASKS_PER_CORE = 2
_TASKS_PER_CORE_HERE = 1


class OffsetRange(NamedTuple):
    """The records of a partition from offset `start` up to, but not with, offset `end`.

    `epoch`: of the leader by whose word they were there; -1: not known. A record of a later epoch has taken the place
    of one of them."""

    topic: str
    partition: int
    start: int
    end: int
    epoch: int = -1

    @property
    def size(self) -> int:
        """Records at most: compaction and transactions leave gaps."""
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """What one task reads."""

    ranges: tuple[OffsetRange, ...]
    options: SourceOptions
    columns: tuple[str, ...]


def plan(ranges: Sequence[OffsetRange], options: SourceOptions, columns: tuple[str, ...]) -> list[ReadTask]:
    """Tasks for all of `ranges`: large ones are cut as the options ask, small ones share a task.

    As many tasks as minPartitions says at least, and none with more records than maxRecordsPerPartition.
    """
    pieces = _cut([one for one in ranges if one.size], options)
    if options.max_records_per_partition is None:
        shares = _deal(pieces, _tasks(pieces, options.min_partitions or 1))
    else:
        shares = [(piece,) for piece in pieces]
    if not shares and options.is_exactly_once:
        shares = [()]  # a task must tell the sink that there is nothing: it may have an earlier run to finish
    # A task carries what its reading needs, not where the query began.
    slim = replace(options, strategy=ConsumerStrategy(), starting=OffsetRangeLimit(), ending=OffsetRangeLimit())
    return [ReadTask(share, slim, columns) for share in shares]


def _cut(ranges: Sequence[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    most = options.max_records_per_partition
    parts = [1 if most is None else -(-one.size // most) for one in ranges]
    wanted = min(options.min_partitions or 0, sum(one.size for one in ranges))
    # One more cut, again and again, where the pieces are largest.
    largest = [(-one.size / count, index) for index, (one, count) in enumerate(zip(ranges, parts, strict=True))]
    heapq.heapify(largest)
    for _ in range(wanted - sum(parts)):
        _, index = largest[0]
        parts[index] += 1
        heapq.heapreplace(largest, (-ranges[index].size / parts[index], index))
    return [piece for one, count in zip(ranges, parts, strict=True) for piece in _divide(one, count)]


def _divide(one: OffsetRange, count: int) -> list[OffsetRange]:
    bounds = [one.start + one.size * part // count for part in range(count + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(bounds)]


def _tasks(pieces: Sequence[OffsetRange], least: int) -> int:
    """Enough to keep this machine's cores busy, and more where there is so much to read that it pays."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    per_core, worth = _TASKS_PER_CORE, _WORTH_A_TASK
    if ONE_MACHINE in os.environ:
        per_core, worth = _TASKS_PER_CORE_HERE, _WORTH_A_TASK_HERE
    records = sum(piece.size for piece in pieces)
    for_cores = min(per_core * cores, 1 + records // _WORTH_A_CORE)
    return min(len(pieces), max(least, for_cores, records // worth))


def _deal(pieces: Sequence[OffsetRange], count: int) -> list[tuple[OffsetRange, ...]]:
    """To the one with least so far, the largest first."""
    shares: list[list[OffsetRange]] = [[] for _ in range(count)]
    loads = [(0, index) for index in range(count)]
    for piece in sorted(pieces, key=lambda piece: (-piece.size, piece)):
        load, index = loads[0]
        shares[index].append(piece)
        heapq.heapreplace(loads, (load + piece.size, index))
    return [tuple(sorted(share)) for share in shares]
