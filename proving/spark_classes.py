"""Spark's classes as the JVM keeps them in memory, in a file: a JVM that maps it starts with half of the CPU time.

`python -m proving.spark_classes` makes the file, once for each environment. A JVM without the file, or of a Java or
a PySpark that the file is not of, loads its classes one by one, as ever.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from equipoise.java import JavaUnavailable, java_home
from equipoise.spark.settings import python_program, tuned

ARCHIVE = Path(sys.prefix, "spark-classes.jsa")
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOG_OFF = "-Xlog:disable"  # the JVM would tell what it cannot map, or keep, on stdout


def quick_options() -> str:
    """Java options of a JVM of Spark that lives for seconds: it compiles little, and maps its classes from the file."""
    mapped = f" {_LOG_OFF} -XX:SharedArchiveFile={shlex.quote(str(ARCHIVE))}" if ARCHIVE.is_file() else ""
    return _QUICK + mapped


def main() -> None:
    """Runs what most drivers run. Its JVM writes the file when it ends."""
    try:
        os.environ["JAVA_HOME"] = str(java_home())
    except JavaUnavailable as error:
        print(error, file=sys.stderr)
        return
    from equipoise.broker import Broker  # a driver that asks for its options needs no broker

    with tempfile.TemporaryDirectory() as home, Broker(topics={"t": 1}) as broker:
        part = ARCHIVE.with_suffix(".part")
        session = _session(Path(home), f"{_QUICK} {_LOG_OFF} -XX:ArchiveClassesAtExit={shlex.quote(str(part))}")
        _run(session, {"kafka.bootstrap.servers": broker.bootstrap_servers}, Path(home))
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # which the JVM takes as its end
        gateway.proc.wait()
        if part.is_file():  # not every JVM can
            part.replace(ARCHIVE)


def _session(home: Path, options: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(home)
    settings = {"driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "driver.extraJavaOptions": options}
    settings |= {"local.dir": str(home), "sql.warehouse.dir": str(home / "warehouse")}
    builder = tuned(SparkSession.builder.master("local[1]"))
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _run(session: Any, brokers: dict[str, str], home: Path) -> None:
    """A batch into a topic, and a stream from there into files."""
    rows = session.range(3).selectExpr("cast(id as string) as value")
    rows.write.format("equipoise").options(**brokers, topic="t").mode("append").save()
    given = {**brokers, "subscribe": "t", "startingOffsets": "earliest"}
    writer = session.readStream.format("equipoise").options(**given).load().writeStream.format("parquet")
    writer = writer.option("path", str(home / "out")).option("checkpointLocation", str(home / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert session.read.parquet(str(home / "out")).count() == 3


if __name__ == "__main__":
    main()
