"""A Spark application with secrets among its options. It shows all that Spark would show of its queries.

Its argument is JSON: home, brokers, and the secret options. The output of this process is searched, and so is `home`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from equipoise.spark.settings import python_program, tuned
from proving.spark_classes import quick_options

QUERY = "the-query-with-secrets"


def session(home: Path) -> Any:
    """All that Spark can write is written: its event log, its pages, its own log with every detail."""
    (home / "events").mkdir()
    builder = tuned(SparkSession.builder.master("local[2]").appName("secrets"))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (home / "events").as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.driver.extraJavaOptions": quick_options(),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def batch(spark: SparkSession, options: dict[str, str]) -> None:
    """A batch query and a write, with their plans."""
    rows = spark.read.format("equipoise").options(**options, subscribe="t").load()
    rows.explain("extended")
    rows.explain("formatted")
    print(rows, rows.count(), rows.schema, spark.read.options(**options))
    rows.createOrReplaceTempView("records")
    spark.sql("explain extended create table kept using parquet as select * from records").show(truncate=False)
    rows.select("value").write.format("equipoise").options(**options, topic="t").mode("append").save()


def stream(spark: SparkSession, options: dict[str, str], home: Path, **more: str) -> None:
    """A streaming query from a topic to a topic, with its plan and progress. It may fail."""
    given = {**options, "startingOffsets": "earliest", **more}
    rows = spark.readStream.format("equipoise").options(**given).load().select("value")
    writer = rows.writeStream.format("equipoise").options(**options, topic="u").queryName(QUERY)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as failure:  # noqa: BLE001 it is what the user of Spark sees
        print("failed:", failure, repr(failure))
    query.explain(extended=True)
    print(query.lastProgress, query.recentProgress, query.status, query.exception())


def failing(spark: SparkSession, options: dict[str, str]) -> None:
    """What the user sees of a failure."""
    try:
        spark.read.format("equipoise").options(**options).load().count()
    except Exception as failure:
        logging.exception("the query failed")
        print("failed:", failure, repr(failure))
    else:
        raise AssertionError("it did not fail")


def pages(spark: SparkSession) -> None:
    """The pages and the figures of Spark's own server."""
    home = spark.sparkContext.uiWebUrl
    assert home is not None
    api = f"{home}/api/v1/applications/{spark.sparkContext.applicationId}"
    places = ["/jobs/", "/stages/", "/environment/", "/SQL/", "/StreamingQuery/", "/executors/"]
    places += [f"/SQL/execution/?id={number}" for number in range(3)]
    open_page = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # it is on this machine
    for place in [*(home + place for place in places), f"{api}/sql?planDescription=true", f"{api}/environment"]:
        with open_page(place, timeout=30) as page:
            print("page", place, page.read().decode())


def main() -> None:
    given = json.loads(sys.argv[1])
    home, options = Path(given["home"]), given["options"]
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(home)
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("equipoise").setLevel(logging.DEBUG)
    spark = session(home)
    spark.sparkContext.setLogLevel("INFO")
    batch(spark, options)
    stream(spark, options, home, subscribe="t")
    brief = {**options, "kafka.default.api.timeout.ms": "1000"}
    broken = {"kafka.security.protocol": "SASL_SSL"}
    away = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    for more in ({"subscribe": "none"}, {"subscribe": "t", **broken}, {"subscribe": "t", **away}):
        failing(spark, {**brief, **more})
    pages(spark)
    spark.stop()


if __name__ == "__main__":
    main()
