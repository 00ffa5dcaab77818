"""A task of the exactly-once sink, on an executor: writes its rows in a transaction, and leaves it to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from equipoise.client.producer.producer import Producer
from equipoise.client.transactions.others import ProducerEpoch, committed_offset
from equipoise.spark.sink.decision import Decision, TaskAttempt
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.writing import discard, producer_of, send
from equipoise.wire.errors import UsageError

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"  # MicroBatchExecution, StreamExecution


@dataclass
class Prepared(WriterCommitMessage):
    """What a task reports to the driver. Without `epoch` it has no open transaction: it had no rows, or its batch is
    decided already."""

    name: str  # of the sink
    rows: int
    attempt: TaskAttempt
    epoch: ProducerEpoch | None = None

    @property
    def transactional_id(self) -> str:
        """Of its transaction."""
        return self.attempt.transactional_id(self.name)


def sink_name(options: SinkOptions, life: str) -> str:
    """Of all transactional ids of one query, or of one write: `life` tells it from others with the same prefix."""
    return f"{options.producer.transactional_id}-{life}"


def prepare(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Prepared:
    """Writes the rows of a task of a micro-batch. If the batch is decided, reads them and writes nothing."""
    context = TaskContext.get()
    assert context is not None
    batch, query = int(context.getLocalProperty(_BATCH) or -1), context.getLocalProperty(_QUERY)
    if batch < 0 or not query:
        raise UsageError("this version of Spark does not tell a task its micro-batch: leave the option delivery out")
    name = sink_name(options, query)
    report = Prepared(name, 0, _attempt(context))
    producer = producer_of(options.producer)
    decision = read_decision(producer, options, name)
    if decision is not None and decision.batch > batch:
        raise older_checkpoint(name, batch, decision)
    if decision is not None and decision.batch == batch:
        return replace(report, rows=sum(rows.num_rows for rows in batches))
    return write_prepared(batches, options, report)


def write_prepared(batches: Iterator[pa.RecordBatch], options: SinkOptions, report: Prepared) -> Prepared:
    """A task without rows has no transaction."""
    first = next((rows for rows in batches if rows.num_rows), None)
    if first is None:
        return report
    producer = producer_of(options.producer)
    try:
        producer.init_transactions(report.transactional_id)
        producer.begin_transaction()
        rows = send(chain([first], batches), options, producer)
        return replace(report, rows=rows, epoch=producer.prepare_transaction())
    except BaseException:
        discard(producer, aborts=True)
        raise


def of_write(options: SinkOptions, life: str) -> Prepared:
    """The report of a task of a batch query, which has no rows yet."""
    context = TaskContext.get()
    assert context is not None
    return Prepared(sink_name(options, life), 0, _attempt(context))


def read_decision(producer: Producer, options: SinkOptions, name: str) -> Decision | None:
    """The last one, for certain: a decision that is being made is waited for. None: there was none."""
    anchor = options.anchor
    found = producer.ask_coordinators(lambda coordinators: committed_offset(coordinators, name, anchor))
    return None if found is None else Decision.parse(found)


def older_checkpoint(name: str, batch: int, decision: Decision) -> UsageError:
    """The query would write again what it has written."""
    return UsageError(
        f"the sink {name} has written batch {decision.batch}, and the query is at batch {batch}: its checkpoint is an "
        "older copy. Bring the newest checkpoint, or begin with a new one, and with it a new query"
    )


def _attempt(context: TaskContext) -> TaskAttempt:
    return TaskAttempt(context.partitionId(), context.attemptNumber())
