"""A task of the sink on an executor: gathers rows into batches of a good size, and gives them to a producer.

A process keeps its producer: its id, its sequence numbers and its connections serve one task after the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark import TaskContext

from equipoise.client.producer.arrow import ArrowRows, name_of_row, pieces
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.producer import Producer
from equipoise.spark.executor.reading import freeze
from equipoise.spark.sink.options import SinkOptions
from equipoise.wire.errors import EquipoiseError

_ENOUGH_BYTES = 1_000_000, 16_000_000  # what stays in the processor's cache; for batches of many partitions, more
_ENOUGH_BYTES_A_PARTITION = 50_000

_ABORT_S = 5.0

_PRODUCERS: dict[ProducerConfig, Producer] = {}


def write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> int:
    """Writes the rows of one task, and returns their number when all are stored. UsageError and KafkaError name the row
    at fault."""
    producer = producer_of(options.producer)
    try:
        return send(batches, options, producer)
    except BaseException:
        discard(producer)
        raise


def send(batches: Iterator[pa.RecordBatch], options: SinkOptions, producer: Producer) -> int:
    """Sends rows with this producer, and returns their number when all are stored."""
    freeze()
    writing = ArrowRows(producer, options.topic, _name, takes_any_time=True)
    for rows in _gathered(batches, writing):
        writing.send(rows)
        producer.raise_unseen()
    producer.flush()
    return writing.rows


def _name(row: int) -> str:
    context = TaskContext.get()
    place = "" if context is None else f" of the DataFrame's partition {context.partitionId()}"
    return name_of_row(row) + place


def _gathered(batches: Iterator[pa.RecordBatch], writing: ArrowRows) -> Iterator[pa.RecordBatch]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        for piece in pieces(batch):
            gathered.append(piece)
            size += piece.nbytes
            if size >= _enough_bytes(writing):
                yield _joined(gathered)
                gathered, size = [], 0
    if gathered:
        yield _joined(gathered)


def _enough_bytes(writing: ArrowRows) -> int:
    """Whether the gathered rows are worth sending."""
    least, most = _ENOUGH_BYTES
    return min(most, max(least, _ENOUGH_BYTES_A_PARTITION * sum(writing.partitions.values())))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def producer_of(config: ProducerConfig) -> Producer:
    """The producer of this process for these settings; the first task creates it."""
    if config not in _PRODUCERS:
        _PRODUCERS[config] = Producer(config)
    return _PRODUCERS[config]


def discard(producer: Producer, *, aborts: bool = False) -> None:
    """Drops a producer after an error: its pending records belong to a task that Spark repeats. `aborts`: an open
    transaction is aborted, if the coordinator can be reached."""
    _PRODUCERS.pop(producer.config, None)
    if aborts:
        with suppress(EquipoiseError):
            producer.close(_ABORT_S)
    producer.abandon()


def forget_all() -> None:
    """Closes every producer of this process without waiting for records. For tests."""
    for producer in list(_PRODUCERS.values()):
        discard(producer)


if hasattr(os, "register_at_fork"):
    # A forked process must neither share connections nor number its batches as its parent does. The threads of its
    # parent's producers are not there, so there is nothing to close.
    os.register_at_fork(after_in_child=_PRODUCERS.clear)
