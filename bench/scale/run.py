"""`python -m bench scale`: what a record, a commit and a member cost as there are more of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure, print_circumstances, short, versions
from bench.machine import Advance, allow_connections, check_machine, progress
from bench.results import print_json
from bench.scale.measures import Costs, Records, commit, join, read_records
from bench.scale.series import Series
from bench.versus.run import create_topic
from equipoise.console.tables import print_table
from proving.brokers import BrokerProcess, MemoryBroker

Named = tuple[str, str, str, str]  # key, title, what grows, and what the cost is of
_OVER_PARTITIONS = "partitions", "Records over partitions", "partitions", "record"
_OF_A_SIZE = "sizes", "Records of a size", "bytes of a value", "record"
_OF_GROUPS = "groups", "Commits of groups in turn", "groups", "commit"
_JOINING = "members", "Members join one group", "members", "member"
_SHARED, _SHARED_PARTITIONS = "members", 64
_LEAST_RECORDS, _MOST_RECORDS = 100, 200_000
NOTES = (
    "CPU microseconds for each record, commit or member, of the broker in memory, of our consumer (poll_arrow()), and "
    "of the Spark source without Spark (planning, and reading in this process). The broker's share of reading is that "
    "for the consumer. Every size has a topic of its own.",
    "Doubles at: the first size at which a unit costs twice as much as at the cheapest smaller size.",
)


class Size(NamedTuple):
    partitions: Sequence[int]
    records: int  # over all partitions
    sizes: Sequence[int]  # bytes of a value
    bytes: int  # of all values of such a topic, as far as the number of records allows
    groups: Sequence[int]
    commits: int
    members: Sequence[int]


FULL = Size(
    (100, 300, 1000, 3000, 10_000),
    200_000,
    (10, 100, 1000, 10_000, 100_000, 900_000),
    200_000_000,
    (10, 100, 1000, 5000),
    20_000,
    (1, 4, 16, 64),
)
QUICK = Size((10, 100), 20_000, (10, 1000), 2_000_000, (10, 100), 500, (1, 4))


def run_bench(as_json: bool, quick: bool, picture: Path | None) -> None:
    """Measures for some minutes and prints a table, or one JSON object."""
    check_machine("scale", "pyspark", "pyarrow")
    size = QUICK if quick else FULL
    allow_connections("scale", 4 * max(size.members))
    began = time.perf_counter()
    steps = sum(map(len, (size.partitions, size.sizes, size.groups, size.members)))
    with progress(steps) as advance:
        found = measure(size, advance)
    if picture is not None:
        from bench.scale.picture import draw

        draw(found, picture)
    seconds = time.perf_counter() - began
    if as_json:
        doubles = {series.key: dict(series.doublings()) for series in found}
        print_json("scale", seconds, _measured(found), NOTES, versions(), sizes=size._asdict(), doubles_at=doubles)
    else:
        _print(found, seconds)


def measure(size: Size, advance: Advance) -> list[Series]:
    with MemoryBroker() as broker:
        read_records(broker, Records("warm", 4, 100, 1000))  # what is imported and compiled at its first use
        create_topic(broker, _SHARED, _SHARED_PARTITIONS)
        join(broker, 1, _SHARED, _SHARED_PARTITIONS)
        over = _series(_OVER_PARTITIONS, size.partitions, advance, lambda count: _over(broker, count, size))
        of = _series(_OF_A_SIZE, size.sizes, advance, lambda each: _of(broker, each, size))
        each_has = [size.records / count for count in size.partitions]
        return [
            over,
            over.per("each_partition", f"{size.records:,} records over partitions", "partition", each_has),
            of,
            of.per("each_megabyte", "Records of a size, by their bytes", "MB", [1e6 / each for each in size.sizes]),
            _series(_OF_GROUPS, size.groups, advance, lambda count: commit(broker, count, size.commits)),
            _series(_JOINING, size.members, advance, lambda count: join(broker, count, _SHARED, _SHARED_PARTITIONS)),
        ]


def _over(broker: BrokerProcess, partitions: int, size: Size) -> Costs:
    return read_records(broker, Records(f"partitions-{partitions}", partitions, 100, size.records))


def _of(broker: BrokerProcess, each: int, size: Size) -> Costs:
    count = max(_LEAST_RECORDS, min(_MOST_RECORDS, size.bytes // each))
    return read_records(broker, Records(f"sizes-{each}", 4, each, count))


def _series(named: Named, sizes: Sequence[int], advance: Advance, measure: Callable[[int], Costs]) -> Series:
    costs: dict[str, list[float]] = {}
    for each in sizes:
        for part, cost in measure(each).items():
            costs.setdefault(part, []).append(cost)
        advance()
    return Series(*named, sizes, costs)


def _measured(found: Sequence[Series]) -> list[tuple[Figure, list[float]]]:
    return [
        (Figure(f"{series.key}_{size}_{part}", f"{size} {series.axis}, {part}", f"us/{series.unit}"), [cost])
        for series in found
        for part, costs in series.costs.items()
        for size, cost in zip(series.sizes, costs, strict=True)
    ]


def _print(found: Sequence[Series], seconds: float) -> None:
    for series in found:
        doubles = dict(series.doublings())
        rows = [
            (part, *map(short, costs), "" if doubles[part] is None else f"{doubles[part]:,}")
            for part, costs in series.costs.items()
        ]
        print(f"{series.title}: CPU us for a {series.unit}")
        print_table((series.axis, *(f"{size:,}" for size in series.sizes), "doubles at"), rows)
        print()
    print_circumstances(seconds, NOTES)
