"""`format("equipoise")`: source and sink under one name, with the options of Spark's own Kafka connector."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from equipoise.spark.options import SourceOptions
from equipoise.spark.schema import columns_of, spark_schema
from equipoise.spark.sink import sink
from equipoise.spark.source.batch_reader import BatchReader
from equipoise.spark.source.stream_reader import StreamReader


class EquipoiseSource(DataSource):
    """`format("equipoise")` for Spark: readers and writers by their options."""

    @classmethod
    def name(cls) -> str:
        return "equipoise"

    def schema(self) -> StructType:
        include = self.options.get("includeHeaders", "false").strip().lower() == "true"
        return spark_schema(include_headers=include)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(SourceOptions.parse(self.options, streaming=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(SourceOptions.parse(self.options, streaming=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return sink.batch_writer(schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return sink.stream_writer(schema, self.options)
