"""Tasks as Spark would hand them to an executor, read in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from equipoise.spark.executor.reading import read
from equipoise.spark.options import SourceOptions
from equipoise.spark.schema import arrow_schema, columns_of, spark_schema
from equipoise.spark.source.offset_ranges import OffsetRange, ReadTask

COLUMNS = columns_of(spark_schema(include_headers=False))
IN_VAIN = {"kafka__default__api__timeout__ms": "500"}  # for those who wait for what does not come
HASTY = {"kafka.retry.backoff.ms": "10", "kafka.fetch.max.wait.ms": "20"}


def task(
    bootstrap_servers: str, ranges: Sequence[OffsetRange], columns: Sequence[str] = COLUMNS, **options: str
) -> ReadTask:
    """Two underscores in the name of an option stand for a dot."""
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": "t", **HASTY}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    return ReadTask(tuple(ranges), SourceOptions.parse(given, streaming=False), tuple(columns))


def table(*given: Any, **options: Any) -> pa.Table:
    mine = task(*given, **options)
    return pa.Table.from_batches(list(read(mine)), arrow_schema(mine.columns))


def places(found: pa.Table) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each row."""
    names = ("topic", "partition", "offset")
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


def all_of(*ranges: OffsetRange) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, offset) for one in ranges for offset in range(one.start, one.end)]
