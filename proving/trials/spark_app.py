"""A Spark application with streaming queries, ours and those of Spark's own connector: `python -m ... JSON`.

A query writes what it has read, partition and offset of each record, to files or to a topic. SIGTERM stops them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from equipoise.spark.settings import python_program, tuned

_LATE = "failed to connect back"  # a source's process has 10 s for that, which a busy machine may not give it
_LOOK_S = 0.2


def main(given: dict[str, Any]) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(Path(given["home"]))
    spark = session(given)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    running: dict[str, Any] = {}
    while not ending.wait(_LOOK_S):
        for name in given["queries"]:
            if name not in running or has_to_begin_again(running[name]):
                running[name] = start(spark, given, name)
    for query in running.values():
        query.stop()
    spark.stop()


def has_to_begin_again(query: Any) -> bool:
    error = None if query.isActive else query.exception()
    if error is not None and _LATE not in str(error):
        raise error
    return error is not None


def session(given: dict[str, Any]) -> Any:
    from pyspark.sql import SparkSession

    builder = tuned(SparkSession.builder.master(given["master"]).appName("queries"))
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start(spark: Any, given: dict[str, Any], name: str) -> Any:
    home, trigger, query = given["home"], given["trigger"], given["queries"][name]
    source, sink = query["source"], query["sink"]
    frame = spark.readStream.format(source["format"]).options(**source["options"]).load()
    if sink["format"] == "json":
        frame = frame.select("partition", "offset")
    else:
        frame = frame.selectExpr("concat(partition, ':', offset) value")
    writer = frame.writeStream.format(sink["format"]).options(**sink["options"])
    writer = writer.trigger(processingTime=trigger).queryName(name)
    return writer.option("checkpointLocation", f"{home}/{name}.progress").start()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
