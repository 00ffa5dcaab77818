"""A Spark application with one streaming query, for tests to kill: `python -m tests.spark.driver JSON`.

Each batch is a file of its own in `out`, of JSON lines, written whole or not at all, so that a batch that comes
again changes nothing. A line on stdin, or its end, stops the query. `die_at`: when so many rows are written, all of it
is killed. `stop_at`: when so many are written, the batch does not end before the query is stopped. `sink`: the options
of our sink, instead of files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from equipoise.spark.settings import python_program, tuned
from proving.spark_classes import quick_options
from tests.spark.starting import Query

TRIGGER = "300 milliseconds"  # one batch after the other would take a processor, for as long as anybody waits


def main(given: dict[str, Any]) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(Path(given["home"]))
    spark = session(given)
    running: list[Query] = []
    reader = spark.readStream.format("equipoise").options(**given["options"])
    checkpoint = str(Path(given["home"]) / "checkpoint")
    frame = reader.load().select("topic", "partition", "offset")
    if "sink" in given:
        writer = reader.load().select("value").writeStream.format("equipoise").options(**given["sink"])
    elif "remote" in given:  # where a function for each batch would take one more process
        writer = frame.writeStream.format("json").option("path", str(Path(given["home"]) / "out"))
    else:
        writer = frame.writeStream.foreachBatch(sink(given, running))
    writer = writer.option("checkpointLocation", checkpoint)
    often = {"availableNow": True} if given.get("available_now") else {"processingTime": TRIGGER}
    query = Query(writer.trigger(**often).start)
    running.append(query)
    print("started", flush=True)
    threading.Thread(target=stop_when_told, args=[query], daemon=True).start()
    query.awaitTermination()
    spark.stop()


def session(given: dict[str, Any]) -> Any:
    if "remote" in given:
        return SparkSession.builder.remote(given["remote"]).getOrCreate()
    builder = tuned(SparkSession.builder.master(given.get("master", "local[1]")))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": given["home"],
        "spark.sql.warehouse.dir": given["home"],
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sink(given: dict[str, Any], running: list[Query]) -> Any:
    out, die_at, rows = Path(given["home"]) / "out", given.get("die_at"), 0
    out.mkdir(parents=True, exist_ok=True)

    def write(frame: Any, batch: int) -> None:
        nonlocal rows
        places = [row.asDict() for row in frame.collect()]
        part = out / f"{batch}.part"
        part.write_text("".join(json.dumps(place) + "\n" for place in places))
        part.rename(out / f"{batch}.json")
        rows += len(places)
        if rows == die_at:
            os.killpg(0, signal.SIGKILL)
        while rows == given.get("stop_at") and (not running or running[0].isActive):
            time.sleep(0.02)

    return write


def stop_when_told(query: Any) -> None:
    sys.stdin.readline()
    query.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
