"""What Spark's own Kafka connector does with a broker: writes, reads in a batch, and as a stream that stops when it
has all there is, twice. Run as a process of its own, with the connector's jars and the brokers; answers in JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

TOPIC = "spark"
FIRST, SECOND = 100, 50


def main(jars: str, *brokers: str) -> None:
    session = start(jars)
    try:
        print(json.dumps({broker: run(session, broker) for broker in brokers}))
    finally:
        session.stop()


def start(jars: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": ",".join(map(str, Path(jars).glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run(session: Any, broker: str) -> dict[str, Any]:
    write(session, broker, FIRST)
    batch = read(session.read, broker).option("includeHeaders", "true").load()
    rows = batch.selectExpr("cast(key as string)", "cast(value as string)", "headers[0].key", "topic").collect()
    found: dict[str, Any] = {"rows": sorted(map(list, rows)), "streamed": []}
    with tempfile.TemporaryDirectory() as checkpoint:
        found["streamed"].append(stream(session, broker, checkpoint))
        write(session, broker, SECOND)
        found["streamed"].append(stream(session, broker, checkpoint))
    return found


def read(reader: Any, broker: str) -> Any:
    reader = reader.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", TOPIC)
    return reader.option("startingOffsets", "earliest")


def write(session: Any, broker: str, count: int) -> None:
    header = "array(named_struct('key', 'source', 'value', cast('spark' as binary))) headers"
    rows = session.range(count).selectExpr("cast(id as string) key", "cast(id * 2 as string) value", header)
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker).option("includeHeaders", "true").option(
        "topic", TOPIC
    ).save()


def stream(session: Any, broker: str, checkpoint: str) -> dict[str, Any]:
    counts: list[int] = []
    query = (
        read(session.readStream, broker)
        .load()
        .writeStream.foreachBatch(lambda rows, _: counts.append(rows.count()))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    return {"count": sum(counts), "end": end[TOPIC]}


if __name__ == "__main__":
    main(*sys.argv[1:])
