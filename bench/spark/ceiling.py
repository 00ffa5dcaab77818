"""A source whose record batches lie ready in memory: the most that Spark takes from any source in Python.

What it takes is its own work on each row: it reads Arrow from a socket, and makes rows of columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from equipoise.spark.executor.reading import freeze
from equipoise.spark.schema import arrow_schema, spark_schema

_TASKS = 2  # one for each core that the session has
_BATCH_BYTES = 1 << 20  # of a record batch: what Spark takes best
_OTHER_BYTES = 60  # of a row beside its value


class Ceiling(DataSource):
    """Option `size`: bytes of a value; `records`: how many there are; `maxOffsetsPerTrigger`: in a batch."""

    @classmethod
    def name(cls) -> str:
        return "equipoise-bench-ceiling"

    def schema(self) -> StructType:
        return spark_schema(include_headers=False)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        size, records, at_once = (int(self.options[name]) for name in ("size", "records", "maxOffsetsPerTrigger"))
        return _Reader(size, records, at_once)


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, size: int, records: int, at_once: int) -> None:
        self._size = size
        self._records = records
        self._at_once = at_once

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None: ...

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"at": min(start["at"] + self._at_once, self._records)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((end["at"] - start["at"]) // _TASKS)] * _TASKS

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze()
        ready = _ready(self._size)
        for at in range(0, partition.value, ready.num_rows):
            yield ready.slice(0, partition.value - at)

    def commit(self, end: dict[str, int]) -> None: ...


@cache
def _ready(size: int) -> pa.RecordBatch:
    schema = arrow_schema(spark_schema(include_headers=False).names)
    rows = max(1, _BATCH_BYTES // (size + _OTHER_BYTES))
    columns: dict[str, list[Any]] = {
        "key": [b"%08d" % number for number in range(rows)],
        "value": [b"x" * size] * rows,
        "topic": [f"values-of-{size}-none"] * rows,
        "partition": [1] * rows,
        "offset": list(range(rows)),
        "timestamp": [1_700_000_000_000_000] * rows,
        "timestampType": [0] * rows,
    }
    return pa.RecordBatch.from_pydict(columns, schema=schema)
