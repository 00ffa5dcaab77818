"""What Spark's own Kafka connector does with a broker, and ours beside it.

The official one writes, reads in a batch, and as a stream that stops when it has all there is, twice; ours goes on with
its checkpoint. Both then read a topic of oddities in many ways, and are given options that must be refused. Run as a
process of its own, with the connector's jars and the brokers; answers in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from equipoise.spark.settings import python_program, tuned
from proving.spark_classes import quick_options

TOPIC = "spark"
FIRST, SECOND = 100, 50
OFFICIAL, OURS = "kafka", "equipoise"

ODD, ODD_PARTITIONS, TIME = "odd", 3, 1_700_000_000_000  # filled by the test, a second from record to record
COMMITTED = "committed"
READ = {
    "all": {"subscribePattern": "odd.*", "includeHeaders": "true"},
    COMMITTED: {"subscribe": ODD, "includeHeaders": "true", "kafka.isolation.level": "read_committed"},
    "offsets": {
        "subscribe": ODD,
        "startingOffsets": json.dumps({ODD: {"0": 3, "1": -2, "2": 5}}),
        "endingOffsets": json.dumps({ODD: {"0": 9, "1": 4, "2": -1}}),
        "minPartitions": "7",
    },
    "one time": {"subscribe": ODD, "startingTimestamp": str(TIME + 10_500), "endingTimestamp": str(TIME + 20_000)},
    "times": {
        "subscribe": ODD,
        "startingOffsetsByTimestamp": json.dumps({ODD: {"0": TIME, "1": TIME + 5_000, "2": TIME + 9_999_999}}),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": json.dumps(
            {ODD: {"0": TIME + 7_000, "1": TIME + 9_999_999, "2": TIME + 9_999_999}}
        ),
    },
    "assigned": {"assign": json.dumps({ODD: [1]}), "maxRecordsPerPartition": "4"},
}
REFUSED = {
    "no topic": {},
    "two choices": {"subscribe": ODD, "subscribePattern": "odd.*"},
    "from the end": {"subscribe": ODD, "startingOffsets": "latest"},
    "to the beginning": {"subscribe": ODD, "endingOffsets": "earliest"},
    "not all partitions": {"subscribe": ODD, "startingOffsets": json.dumps({ODD: {"0": 3}})},
    "no record as young": {"subscribe": ODD, "startingTimestamp": str(4 * TIME)},
    "times backwards": {"subscribe": ODD, "startingTimestamp": str(TIME + 9_000), "endingTimestamp": str(TIME)},
    "offsets backwards": {
        "assign": json.dumps({ODD: [0]}),
        "startingOffsets": json.dumps({ODD: {"0": 3}}),
        "endingOffsets": json.dumps({ODD: {"0": 2}}),
    },
    "reset": {"subscribe": ODD, "kafka.auto.offset.reset": "earliest"},
    "automatic commits": {"subscribe": ODD, "kafka.enable.auto.commit": "true"},
    "deserializer": {"subscribe": ODD, "kafka.value.deserializer": "x"},
    "no tasks": {"subscribe": ODD, "minPartitions": "0"},
}


def main(jars: str, *brokers: str) -> None:
    with tempfile.TemporaryDirectory() as home:
        compare(start(jars, Path(home)), *brokers)


def compare(session: Any, *brokers: str) -> None:
    try:
        found: dict[str, Any] = {broker: run(session, broker) for broker in brokers}
        found["refused"] = {name: refusals(session, brokers[0], options) for name, options in REFUSED.items()}
        print(json.dumps(found))
    finally:
        session.stop()


def start(jars: str, home: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python_program(home)
    settings = {
        "spark.jars": ",".join(map(str, Path(jars).glob("*.jar"))),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": quick_options(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = tuned(SparkSession.builder.master("local[2]"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run(session: Any, broker: str) -> dict[str, Any]:
    write(session, broker, FIRST)
    batch = read(session.read, broker, OFFICIAL).option("includeHeaders", "true").load()
    rows = batch.selectExpr("cast(key as string)", "cast(value as string)", "headers[0].key", "topic").collect()
    found: dict[str, Any] = {"rows": sorted(map(list, rows)), "streamed": []}
    with tempfile.TemporaryDirectory() as checkpoint:
        for count, connector in ((0, OFFICIAL), (SECOND, OFFICIAL), (SECOND, OURS)):
            write(session, broker, count)
            found["streamed"].append(stream(session, broker, connector, checkpoint))
    found["read"] = {name: beside(session, broker, options) for name, options in READ.items()}
    return found


def beside(session: Any, broker: str, options: dict[str, str]) -> dict[str, Any]:
    """What each connector reads, as text; and whether it comes in the same columns."""
    frames = [
        session.read.format(connector).option("kafka.bootstrap.servers", broker).options(**options).load()
        for connector in (OFFICIAL, OURS)
    ]
    official, ours = ([str(row) for row in frame.orderBy("topic", "partition", "offset").collect()] for frame in frames)
    return {"official": official, "ours": ours, "same schema": frames[0].schema == frames[1].schema}


def refusals(session: Any, broker: str, options: dict[str, str]) -> list[str]:
    """The connectors that refuse to read so."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    refused = []
    for connector in (OFFICIAL, OURS):
        try:
            session.read.format(connector).option("kafka.bootstrap.servers", broker).options(**options).load().collect()
        except (PySparkException, Py4JJavaError):
            refused.append(connector)
    return refused


def read(reader: Any, broker: str, connector: str) -> Any:
    reader = reader.format(connector).option("kafka.bootstrap.servers", broker).option("subscribe", TOPIC)
    return reader.option("startingOffsets", "earliest")


def write(session: Any, broker: str, count: int) -> None:
    header = "array(named_struct('key', 'source', 'value', cast('spark' as binary))) headers"
    rows = session.range(count).selectExpr("cast(id as string) key", "cast(id * 2 as string) value", header)
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker).option("includeHeaders", "true").option(
        "topic", TOPIC
    ).save()


def stream(session: Any, broker: str, connector: str, checkpoint: str) -> dict[str, Any]:
    from tests.spark.starting import Query

    counts: list[int] = []
    rows = read(session.readStream, broker, connector).load()
    writer = rows.writeStream.foreachBatch(lambda rows, _: counts.append(rows.count()))
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = Query(writer.start)
    query.awaitTermination()
    end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    return {"count": sum(counts), "end": end.get("to", end)[TOPIC]}


if __name__ == "__main__":
    main(*sys.argv[1:])
