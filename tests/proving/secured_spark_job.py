"""Spark's own connector and ours on a secured broker, by each way to reach it: one writes a topic, and one reads it, in
a batch and as a stream. Run as a process of its own, with the connector's jars. Options by way come as JSON on stdin,
the counts go as JSON to stdout."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from proving.secured_broker import OPEN
from tests.proving.spark_job import OFFICIAL, OURS, start

ROWS = 100
CROSSED = "SCRAM-SHA-512"  # the way by which the connectors read each other's records


def pairs_of(way: str) -> list[tuple[str, str]]:
    """Writers and readers by a way."""
    if way == CROSSED:
        return [(writer, reader) for writer in (OFFICIAL, OURS) for reader in (OFFICIAL, OURS)]
    return [(OFFICIAL, OFFICIAL), (OURS, OURS)]


def topic_of(way: str, writer: str, reader: str) -> str:
    return f"{OPEN}-{way}-{writer}-{reader}"


def main(jars: str) -> None:
    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as home:
        session = start(jars, Path(home))
        try:
            counts = {
                topic_of(way, *pair): pass_on(session, options, topic_of(way, *pair), pair, home)
                for way, options in given.items()
                for pair in pairs_of(way)
            }
            print(json.dumps(counts))
        finally:
            session.stop()


def pass_on(session: Any, given: dict[str, str], topic: str, pair: tuple[str, str], home: str) -> list[int]:
    """The records that a batch reads, and those that a stream reads."""
    writer, reader = pair
    rows = session.range(ROWS).selectExpr("cast(id as string) value")
    rows.write.format(writer).options(**given, topic=topic).mode("append").save()
    wanted = {**given, "subscribe": topic, "startingOffsets": "earliest", "groupIdPrefix": OPEN}
    counts: list[int] = []
    stream = session.readStream.format(reader).options(**wanted).load().writeStream
    stream = stream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    query = stream.option("checkpointLocation", f"{home}/{topic}").trigger(availableNow=True).start()
    query.awaitTermination()
    return [session.read.format(reader).options(**wanted).load().count(), sum(counts)]


if __name__ == "__main__":
    main(*sys.argv[1:])
