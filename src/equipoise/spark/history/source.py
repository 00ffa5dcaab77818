"""`__consumer_offsets` as decoded rows: Spark sees columns, and only of the requested group.

It is a source of its own, not a function over `format("equipoise")`: rows cross into the JVM once, not three times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from equipoise.spark.history.decode import INPUT, decode
from equipoise.spark.history.schemas import ROWS
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.batch_reader import BatchReader

ONLY_GROUP = "onlyGroup"


class OffsetsSource(DataSource):
    """Takes the options of `format("equipoise")`, and `onlyGroup`."""

    @classmethod
    def name(cls) -> str:
        return "equipoise-offsets"

    def schema(self) -> StructType:
        return from_arrow_schema(ROWS, prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        options: dict[str, Any] = dict(self.options)
        only = next((options.pop(name) for name in list(options) if name.lower() == ONLY_GROUP.lower()), None)
        return _HistoryReader(SourceOptions.parse(options, streaming=False), only)


class _HistoryReader(BatchReader):
    def __init__(self, options: SourceOptions, only: str | None) -> None:
        super().__init__(options, INPUT)
        self._only = only

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return decode(super().read(partition), self._only)
