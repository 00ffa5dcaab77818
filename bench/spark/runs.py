"""What `python -m bench spark` runs: one Spark session, topics to read, and the same query through both connectors."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from equipoise.client import Admin
from equipoise.spark.pipeline.spark_session import SparkApplication, spark_session
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.writing import write
from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess
from proving.fetched import Unavailable, jars
from proving.tree import with_tree

log = logging.getLogger(__name__)

PARTITIONS = 4
_AT_ONCE = 50_000
_RANDOM_BYTES = 16  # of each value; the rest is the same in all, as in most real ones
_PATIENCE = 600
_LATE, _CHANCES = "worker failed to connect back", 3  # Spark waits 10 s for a source's process


def official_jars() -> tuple[list[Path], str | None]:
    """The official connector, or why it cannot be had."""
    try:
        return sorted(jars("spark").glob("*.jar")), None
    except Unavailable as error:
        return [], str(error)


@contextmanager
def session(connector: list[Path], *, warms_up: bool = True) -> Iterator[Any]:
    """Spark on two cores as `equipoise run` starts it, for both connectors alike."""
    os.environ.update(with_tree())  # for the workers, which import the source in memory
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch:
        settings = {
            "spark.driver.memory": "2g",
            "spark.jars": ",".join(map(str, connector)),
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": scratch,
            "spark.sql.streaming.numRecentProgressUpdates": "200",
        }
        application = SparkApplication(
            name="python -m bench spark", master="local[2]", settings=settings, warms_up=warms_up
        )
        with spark_session(application, log.debug) as running:
            yield running


def fill(broker: BrokerProcess, topic: str, size: int, count: int, codec: str) -> None:
    """Records with keys of 8 bytes and values of `size`."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    write(_rows(size, count), sink_options(broker, topic, codec))


def sink_options(broker: BrokerProcess, topic: str, codec: str = "none") -> SinkOptions:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return SinkOptions.parse(servers | {"topic": topic, "kafka.compression.type": codec})


def _rows(size: int, count: int) -> Iterator[pa.RecordBatch]:
    noise = random.Random(size)
    same = b"x" * (size - _RANDOM_BYTES)
    values = pa.array([noise.randbytes(_RANDOM_BYTES) + same for _ in range(min(count, _AT_ONCE))], pa.binary())
    for first in range(0, count, _AT_ONCE):
        n = min(_AT_ONCE, count - first)
        keys = pa.array([b"%08d" % number for number in range(first, first + n)], pa.binary())
        yield pa.RecordBatch.from_arrays([keys, values.slice(0, n)], ["key", "value"])


class Stream:
    """A query that reads a topic to its end, so many records at a time, and what its batches took."""

    def __init__(self, spark: Any, broker: BrokerProcess, connector: str, topic: str, at_once: int) -> None:
        source = spark.readStream.format(connector).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        self._source = source.options(
            subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(at_once), failOnDataLoss="true"
        )

    def run(self, sink: str = "noop", **options: str) -> list[tuple[int, float]]:
        """Rows and seconds of each batch, in order; without a last one that is only what was left."""
        for chance in range(_CHANCES):
            try:
                found = self._run(sink, options)
                break
            except Exception as error:
                if _LATE not in str(error) or chance == _CHANCES - 1:
                    raise
        most = max(rows for rows, _ in found)
        return [(rows, seconds) for rows, seconds in found if 2 * rows > most]

    def _run(self, sink: str, options: dict[str, str]) -> list[tuple[int, float]]:
        with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch:
            writer = self._source.options(**options).load().writeStream.format(sink)
            writer = writer.option("checkpointLocation", f"{scratch}/checkpoint").option("path", f"{scratch}/rows")
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(_PATIENCE):
                query.stop()
                raise EquipoiseError(f"a query has not ended within {_PATIENCE} s")
            return [(one["numInputRows"], one["durationMs"]["triggerExecution"] / 1000) for one in query.recentProgress]


def save(spark: Any, broker: BrokerProcess, connector: str, topic: str, size: int, count: int) -> float:
    """Seconds that a DataFrame of so many rows takes to be written."""
    value = f"cast(concat(lpad(cast(id as string), 16, '0'), repeat('x', {size - 16})) as binary) value"
    rows = spark.range(0, count, 1, 2).selectExpr("lpad(cast(id as string), 8, '0') key", value)
    writer = rows.write.format(connector).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    began = time.perf_counter()
    writer.option("topic", topic).mode("append").save()
    return time.perf_counter() - began
