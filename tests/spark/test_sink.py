"""The sink under Spark: DataFrames and streams to topics, read back with librdkafka."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.wire.errors import ErrorCode, KafkaError
from proving.brokers import KafkaBroker
from tests.client.writing import Reachable
from tests.spark.conftest import create
from tests.spark.starting import Query
from tests.spark.streams import kill_workers, until
from tests.spark.test_writing import read

ROWS = 30_000
HEADER = "array(named_struct('key', 'source', 'value', cast('spark' as binary))) headers"


def to_topic(writer: Any, broker: Reachable, topic: str | None = "orders", **options: str) -> Any:
    """A writer, with its options."""
    writer = writer.format("equipoise").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return writer.options(**({"topic": topic} if topic else {}), **options)


def save(rows: Any, broker: Reachable, topic: str | None = "orders", **options: str) -> None:
    to_topic(rows.write.mode("append"), broker, topic, **options).save()


def stored(broker: Reachable, topic: str = "orders", partitions: int = 3) -> list[Any]:
    """Key, value and headers of all records."""
    found = read(broker, topic, partitions)
    return sorted((m.key(), m.value(), m.headers()) for messages in found.values() for m in messages)


def write_and_check(spark: Any, broker: Reachable, topic: str, codec: str) -> None:
    create(broker.bootstrap_servers, topic, 3)
    rows = spark.range(5000).selectExpr("cast(id as string) key", "cast(id * 2 as string) value", HEADER)
    save(rows, broker, topic, **{"kafka.compression.type": codec})
    expected = [(b"%d" % n, b"%d" % (2 * n), [("source", b"spark")]) for n in range(5000)]
    assert stored(broker, topic) == sorted(expected)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_data_frame_is_written(spark: Any, broker: Broker, codec: str) -> None:
    write_and_check(spark, broker, "orders", codec)


@pytest.mark.kafka
def test_a_data_frame_is_written_to_apache_kafka(spark: Any, kafka: KafkaBroker) -> None:
    write_and_check(spark, kafka, "from-spark", "lz4")


def test_columns_say_topic_and_partition(spark: Any, broker: Broker) -> None:
    for topic in ("even", "odd"):
        create(broker.bootstrap_servers, topic, 2)
    columns = (
        "if(id % 2 = 0, 'even', 'odd') topic",
        "cast(id div 2 % 2 as int) partition",
        "cast(cast(id as string) as binary) value",
        "'ignored' other",
    )
    save(spark.range(100).selectExpr(*columns), broker, None)
    for topic, first in (("even", 0), ("odd", 1)):
        for number, messages in read(broker, topic, 2).items():
            expected = [n for n in range(first, 100, 2) if n // 2 % 2 == number]
            assert sorted(int(m.value() or b"") for m in messages) == expected
            assert {m.key() for m in messages} == {None}


def test_other_columns_are_ignored_whatever_they_are_called(spark: Any, broker: Broker) -> None:
    """A column timestamp is no time of records: those of a copy would be too old for its topic's retention."""
    create(broker.bootstrap_servers, "orders")
    before = time.time() * 1000
    for timestamp in ("timestamp'2001-01-01 00:00:00'", "'yesterday'", "struct(1)"):
        save(spark.range(1).selectExpr("'a' value", f"{timestamp} timestamp"), broker)
    (found,) = read(broker, "orders", 1).values()
    assert len(found) == 3
    assert all(message.timestamp()[1] >= int(before) for message in found)


def test_a_stream_is_copied_from_topic_to_topic(spark: Any, broker: Broker, checkpoint: str) -> None:
    create(broker.bootstrap_servers, "orders", 3)
    create(broker.bootstrap_servers, "copies", 3)
    copied = 0
    for first, last in ((0, 3000), (3000, 4000)):
        save(spark.range(first, last).selectExpr("cast(id as string) key", "cast(id as string) value"), broker)
        copied = last
        copy_all(spark, broker, checkpoint)
    assert stored(broker, "copies") == stored(broker, "orders")
    assert len(stored(broker, "copies")) == copied


def copy(spark: Any, broker: Reachable, checkpoint: str, **options: str) -> Any:
    source = spark.readStream.format("equipoise").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    rows = source.options(subscribe="orders", startingOffsets="earliest").load()
    writer = rows.select("key", "value").writeStream.option("checkpointLocation", checkpoint)
    return to_topic(writer, broker, "copies", **options)


def copy_all(spark: Any, broker: Reachable, checkpoint: str) -> None:
    Query(copy(spark, broker, checkpoint).trigger(availableNow=True).start).awaitTermination()


# -- what is refused


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        (["id key"], "orders", "there is no column value; the columns are key"),
        (["id value"], "orders", "the column value is bigint, and must be string or binary: cast it"),
        (["cast(id as string) value"], None, "no topic is given: set the option topic, or give a column topic"),
        (["cast(id as string) value"], "nowhere", "topic 'nowhere' does not exist"),
    ],
)
def test_errors_are_told_when_the_query_is_planned(
    spark: Any, columns: list[str], topic: str | None, message: str
) -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        create(broker.bootstrap_servers, "orders")
        with pytest.raises(PySparkException, match=message):
            save(spark.range(1).selectExpr(*columns), broker, topic, **{"kafka.max.block.ms": "3000"})


def test_a_topic_is_not_overwritten(spark: Any, broker: Broker) -> None:
    create(broker.bootstrap_servers, "orders")
    rows = spark.range(1).selectExpr("'a' value")
    with pytest.raises(PySparkException, match=r'mode\("overwrite"\) is not for topics'):
        to_topic(rows.write.mode("overwrite"), broker).save()
    assert count(broker, "orders") == 0


def test_a_record_that_is_too_large_is_named(spark: Any, broker: Broker) -> None:
    create(broker.bootstrap_servers, "orders")
    rows = spark.range(0, 40, 1, 2).selectExpr("repeat('x', if(id = 27, 2000000, 10)) value")
    message = r"row 8 of the DataFrame's partition 1 takes 2\d+ bytes as a record of topic 'orders'"
    with pytest.raises(PySparkException, match=message):
        save(rows, broker)


# -- what goes wrong


def count(broker: Reachable, topic: str) -> int:
    with Admin(broker.bootstrap_servers) as admin:
        return sum(one.latest for one in admin.offsets(topic).values())


def take_one_batch_only(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each partition: whoever has more to write tries again, and is in the middle of writing until then."""
    append = broker.server.append

    def hesitating(partition: Any, *rest: Any, **more: Any) -> Any:
        if partition.topic.name == topic and partition.log.log_end_offset:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not now")
        return append(partition, *rest, **more)

    monkeypatch.setattr(broker.server, "append", hesitating)


def test_nothing_is_lost_when_the_workers_are_killed_while_they_write(
    spark: Any, broker: Broker, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker.bootstrap_servers, "orders", 3)
    create(broker.bootstrap_servers, "copies", 3)
    save(spark.range(ROWS).selectExpr("cast(id as string) key", "repeat(cast(id as string), 20) value"), broker)
    take_one_batch_only(broker, "copies", monkeypatch)
    query = Query(copy(spark, broker, checkpoint).start)
    until("some rows are written", lambda: count(broker, "copies"), query)
    assert kill_workers()
    with pytest.raises(StreamingQueryException) as failure:
        query.awaitTermination()
    # Where the job cannot be aborted either, the message has no cause. The trace has it.
    assert "Python worker exited unexpectedly" in (getattr(failure.value, "_stackTrace", None) or "")
    assert count(broker, "copies") < ROWS
    monkeypatch.undo()
    copy_all(spark, broker, checkpoint)
    assert {int(key) for key, _, _ in stored(broker, "copies")} == set(range(ROWS))
