"""Spark's own connector and ours on a secured broker: each writes a topic, and both read it, in a batch and as a
stream. Run as a process of its own, with the connector's jars; its options come as JSON on stdin, the counts go as JSON
to stdout."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.proving.spark_job import OFFICIAL, OURS, start

ROWS = 100


def main(jars: str) -> None:
    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as home:
        session = start(jars, Path(home))
        try:
            print(
                json.dumps(
                    {
                        f"{writer} to {reader}": pass_on(session, given, writer, reader, home)
                        for writer in (OFFICIAL, OURS)
                        for reader in (OFFICIAL, OURS)
                    }
                )
            )
        finally:
            session.stop()


def pass_on(session: Any, given: dict[str, str], writer: str, reader: str, home: str) -> list[int]:
    """The records that a batch reads, and those that a stream reads."""
    topic = f"{writer}-{reader}"
    rows = session.range(ROWS).selectExpr("cast(id as string) value")
    rows.write.format(writer).options(**given, topic=topic).mode("append").save()
    wanted = {**given, "subscribe": topic, "startingOffsets": "earliest"}
    counts: list[int] = []
    stream = session.readStream.format(reader).options(**wanted).load().writeStream
    stream = stream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    query = stream.option("checkpointLocation", f"{home}/{topic}").trigger(availableNow=True).start()
    query.awaitTermination()
    return [session.read.format(reader).options(**wanted).load().count(), sum(counts)]


if __name__ == "__main__":
    main(*sys.argv[1:])
