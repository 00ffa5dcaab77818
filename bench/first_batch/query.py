"""`python -m bench.first_batch.query`: one Spark session, and the first batch of one query in it. Prints one JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any, NamedTuple

from bench.first_batch.processes import Lane, Processes

_PATIENCE_S = 300.0
_GLANCE_S = 0.01
_WARM_BATCHES = 2
MARKS = "load() returns", "start() returns", "first batch ends"


class Query(NamedTuple):
    """What is measured: by which connector, from where, as a member or not, and in which session."""

    connector: str
    servers: str
    topic: str
    group: str = ""
    warms_up: bool = True


class FirstBatch(NamedTuple):
    """Seconds since load() was called, by the names in MARKS; and what the processes did meanwhile."""

    marks: dict[str, float]
    lanes: list[Lane]

    @property
    def seconds(self) -> float:
        return self.marks[MARKS[-1]]

    @classmethod
    def parse(cls, text: str) -> FirstBatch:
        found = json.loads(text)
        return cls(found["marks"], [Lane(name, [(at, cpu) for at, cpu in samples]) for name, samples in found["lanes"]])


def measure(query: Query) -> FirstBatch:
    from bench.spark.runs import official_jars, session

    jars, _ = official_jars()
    with session(jars, warms_up=query.warms_up) as spark, tempfile.TemporaryDirectory() as scratch:
        _warm(spark, f"{scratch}/warm", query.warms_up)
        with Processes(spark.sparkContext._gateway.proc.pid) as processes:
            marks = _run(spark, query, f"{scratch}/checkpoint")
        return FirstBatch(marks, processes.lanes)


def _warm(spark: Any, checkpoint: str, is_python_too: bool) -> None:
    """The session has run a stream of Spark's own, and what it starts in the background is there."""
    if is_python_too:
        from equipoise.spark.warming import warm_up

        warm_up(spark).join()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "10").load()
    stream = source.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    _until(stream, lambda progress: progress["batchId"] >= _WARM_BATCHES)
    stream.stop()


def _run(spark: Any, query: Query, checkpoint: str) -> dict[str, float]:
    began = time.monotonic()
    marks = {}
    source = spark.readStream.format(query.connector).option("kafka.bootstrap.servers", query.servers)
    source = source.options(subscribe=query.topic, startingOffsets="earliest")
    if query.group:
        source = source.option("group.id", query.group)
    frame = source.load()
    marks[MARKS[0]] = time.monotonic() - began
    stream = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    marks[MARKS[1]] = time.monotonic() - began
    _until(stream, lambda progress: progress["numInputRows"] > 0)
    marks[MARKS[2]] = time.monotonic() - began
    stream.stop()
    return marks


def _until(stream: Any, is_reached: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not ((progress := stream.lastProgress) and is_reached(progress)):
        if not stream.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"the stream has come to no batch: {stream.exception()}")
        time.sleep(_GLANCE_S)


if __name__ == "__main__":
    found = measure(Query(*json.loads(sys.argv[1])))
    print(json.dumps(found._asdict()))
