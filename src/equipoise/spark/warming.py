"""Starts Spark's Python processes before the first query needs them.

A query on a Python source needs five processes, one after the other: Spark looks for sources, creates the source, runs
it in the driver, plans its reading, and reads. Each imports PySpark, and some import pyarrow and the source. All but
the driver's stay for the next query. A read of one row, which needs no broker, starts these four.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

ONE_ROW = "equipoise.one.row"  # the option of such a read: its number of tasks
_MOST_TASKS = 16


class OneRowReader(DataSourceReader):
    """A batch of one row of nulls for each task. It imports what a reader of records imports.

    Spark keeps processes by the class of the source, so that this must be a reader of `EquipoiseSource`."""

    def __init__(self, tasks: str, columns: tuple[str, ...]) -> None:
        from equipoise.spark.source import stream_reader  # noqa: F401 what the planner of a stream needs

        self._tasks = int(tasks)
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from equipoise.spark.executor.reading import freeze
        from equipoise.spark.schema import arrow_schema

        freeze()
        schema = arrow_schema(self._columns)
        # Of Python's values pyarrow makes no array before it has imported pandas, which no reader of records needs.
        yield pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def warm_up(spark: Any) -> threading.Thread:
    """Starts the processes in the background, and returns at once. A query may start meanwhile.

    The thread ends when they are ready. A failure is logged and has no other effect: the query itself reports it."""
    thread = threading.Thread(target=_read_one_row, args=(spark,), name="spark-warms-up", daemon=True)
    thread.start()
    return thread


def _read_one_row(spark: Any) -> None:
    try:
        tasks = min(int(spark.sparkContext.defaultParallelism), _MOST_TASKS)
        read = spark.read.format("equipoise").option(ONE_ROW, tasks).load()
        read.write.format("noop").mode("overwrite").save()
    except Exception as error:  # noqa: BLE001 the session may have ended: py4j and Spark have errors of many kinds
        log.debug("Spark's Python processes could not be started in advance: %s", error)
