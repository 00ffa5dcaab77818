"""The sink: writes rows of a DataFrame as records to topics, with the columns of Spark's own Kafka connector.

A task's rows are stored when it ends. Rows that a failed task has written stay, and its repetition writes them again:
at least once. With delivery=exactly-once they count when the driver commits them, once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
)

from equipoise.spark.sink import committing
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.prepared import Prepared, of_write, prepare, sink_name, write_prepared
from equipoise.spark.sink.writing import producer_of, write
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = (StringType, BinaryType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "topic": (StringType,),
    "key": _BYTES,
    "value": _BYTES,
    "headers": (ArrayType,),
    "partition": (IntegerType,),
}
_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass
class Written(WriterCommitMessage):
    """What a task reports to the driver when its rows are stored."""

    rows: int


def batch_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool = False) -> BatchWriter:
    """The writer of a batch query. UsageError: columns are missing or have the wrong type, or the topic is to be
    overwritten."""
    if overwrite:
        raise UsageError('mode("overwrite") is not for topics, which only grow: write with mode("append")')
    return BatchWriter(_planned(schema, options))


def stream_writer(schema: StructType, options: Mapping[str, str]) -> StreamWriter:
    """The writer of a streaming query. UsageError: columns are missing or have the wrong type."""
    return StreamWriter(_planned(schema, options))


class BatchWriter(DataSourceArrowWriter):
    """Spark pickles it: `write` runs on executors, once for each task."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._life = uuid.uuid4().hex  # of this write, in the names of its transactions

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.is_exactly_once:
            return write_prepared(_known(iterator), self._options, of_write(self._options, self._life))
        return Written(write(_known(iterator), self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.is_exactly_once:
            committing.commit_write(self._options, self._name, _prepared(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.is_exactly_once:
            committing.abort_write(self._options, self._name, _prepared(messages))

    @property
    def _name(self) -> str:
        return sink_name(self._options, self._life)


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark pickles it: `write` runs on executors, once for each task of each micro-batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.is_exactly_once:
            return prepare(_known(iterator), self._options)
        return Written(write(_known(iterator), self._options))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if prepared := _prepared(messages):
            committing.commit(self._options, prepared, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Spark calls it also after a commit() that has failed."""
        if prepared := _prepared(messages):
            committing.abort(self._options, prepared, batchId)


def _known(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The columns of the sink. The producer knows more, such as `timestamp`: a copy of old records with their times
    would fall to the retention of its topic."""
    for batch in batches:
        yield batch.select([name for name in batch.schema.names if name in _TYPES])


def _prepared(messages: list[WriterCommitMessage | None]) -> list[Prepared]:
    """Those of tasks that ended; none without delivery=exactly-once."""
    return [one for one in messages if isinstance(one, Prepared)]


def _planned(schema: StructType, options: Mapping[str, str]) -> SinkOptions:
    """Checks options and columns, and that the topic exists, in the driver: before any task starts."""
    parsed = SinkOptions.parse(options)
    names = schema.fieldNames()
    if "value" not in names:
        raise UsageError(f"there is no column value; the columns are {', '.join(names) or 'none'}: name one so")
    for name in _TYPES:
        if names.count(name) > 1:
            raise UsageError(f"there are {names.count(name)} columns {name}: keep one, and rename or drop the others")
        if name in names:
            _check_type(name, schema[name].dataType)
    if parsed.topic is None and "topic" not in names:
        raise UsageError("no topic is given: set the option topic, or give a column topic")
    for topic in filter(None, (parsed.topic, parsed.decision_topic)):
        producer_of(parsed.producer).topic(topic)
    return parsed


def _check_type(name: str, kind: DataType) -> None:
    allowed = _TYPES[name]
    if not isinstance(kind, allowed) or (isinstance(kind, ArrayType) and not _are_headers(kind)):
        wanted = _HEADERS if name == "headers" else " or ".join(one.typeName() for one in allowed)
        raise UsageError(f"the column {name} is {kind.simpleString()}, and must be {wanted}: cast it")


def _are_headers(kind: ArrayType) -> bool:
    pair = kind.elementType
    return isinstance(pair, StructType) and [field.dataType for field in pair] == [StringType(), BinaryType()]
