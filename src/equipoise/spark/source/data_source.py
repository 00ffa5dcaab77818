"""`format("equipoise")`: source and sink under one name, with the options of Spark's own Kafka connector.

Spark imports this module in each of its processes, one after the other, before the first row. Each method therefore
imports what it needs itself.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from equipoise.garbage import without_collection


class EquipoiseSource(DataSource):
    """`format("equipoise")` for Spark: readers and writers by their options."""

    @classmethod
    def name(cls) -> str:
        return "equipoise"

    def schema(self) -> StructType:
        from equipoise.spark.schema import spark_schema

        include = self.options.get("includeHeaders", "false").strip().lower() == "true"
        return spark_schema(include_headers=include)

    def reader(self, schema: StructType) -> DataSourceReader:
        from equipoise.spark.warming import ONE_ROW, OneRowReader

        if ONE_ROW in self.options:
            return OneRowReader(self.options[ONE_ROW], tuple(schema.names))
        with without_collection():
            from equipoise.spark.options import SourceOptions
            from equipoise.spark.schema import columns_of
            from equipoise.spark.source.batch_reader import BatchReader

        return BatchReader(SourceOptions.parse(self.options, streaming=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with without_collection():
            from equipoise.spark.options import SourceOptions
            from equipoise.spark.schema import columns_of
            from equipoise.spark.source.stream_reader import StreamReader

        return StreamReader(SourceOptions.parse(self.options, streaming=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from equipoise.spark.sink import sink

        return sink.batch_writer(schema, self.options, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from equipoise.spark.sink import sink

        return sink.stream_writer(schema, self.options)
