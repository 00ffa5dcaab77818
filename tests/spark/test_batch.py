"""Batch queries with real Spark: every option that says what is read, and every error as one sentence."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.server_process import free_port
from equipoise.spark.schema import spark_schema
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.build import Record
from tests.client.records import TIME, fill, numbered, produce
from tests.spark.conftest import create, delete_before

ROWS = 100


def reader(spark: Any, broker: Broker | str, **options: str) -> Any:
    """Of topic t, if nothing else is chosen; two underscores in a name stand for a dot."""
    servers = broker if isinstance(broker, str) else broker.bootstrap_servers
    given = {name.replace("__", "."): value for name, value in options.items()}
    if not given.keys() & {"subscribe", "subscribePattern", "assign"}:
        given["subscribe"] = "t"
    return spark.read.format("equipoise").option("kafka.bootstrap.servers", servers).options(**given)


def places(frame: Any) -> list[tuple[str, int, int]]:
    return sorted(tuple(row) for row in frame.select("topic", "partition", "offset").collect())


def offsets(partition: int, numbers: Iterable[int], topic: str = "t") -> list[tuple[str, int, int]]:
    return [(topic, partition, number) for number in numbers]


def refusal(spark: Any, broker: Broker | str, **options: str) -> str:
    with pytest.raises(PySparkException) as caught:
        reader(spark, broker, **options).load().collect()
    return str(caught.value)


@pytest.fixture
def filled(broker: Broker) -> Broker:
    """Topic t with two partitions of a hundred records each, a millisecond apart."""
    fill(broker, "t", ROWS, partitions=2)
    return broker


def test_it_is_found_without_register_and_has_the_columns_of_the_official_connector(spark: Any, filled: Broker) -> None:
    frame = reader(spark, filled).load()
    assert frame.schema == spark_schema(include_headers=False)
    assert places(frame) == offsets(0, range(ROWS)) + offsets(1, range(ROWS))
    first = frame.where("partition = 1 and offset = 5").first()
    assert (bytes(first.key), bytes(first.value)) == (b"key-5", b"5-xxxxxxxx")
    assert first.timestampType == 0
    assert frame.selectExpr("min(unix_millis(timestamp))").first()[0] == TIME


def test_headers_if_asked_for(spark: Any, broker: Broker) -> None:
    create(broker.bootstrap_servers, "t")
    records = [Record(0, TIME, None, b"v", (("a", b"1"), ("b", None))), Record(1, TIME, None, b"w")]
    produce(broker.bootstrap_servers, "t", 0, records)
    frame = reader(spark, broker, includeHeaders="true").load()
    assert frame.schema == spark_schema(include_headers=True)
    found, none = (row.headers for row in frame.orderBy("offset").collect())
    assert [(one.key, one.value and bytes(one.value)) for one in found] == [("a", b"1"), ("b", None)]
    assert none is None


def test_a_schema_chooses_columns(spark: Any, filled: Broker) -> None:
    frame = reader(spark, filled).schema("offset long, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert frame.where("offset = 7").distinct().count() == 1


def test_columns_that_a_record_does_not_have(spark: Any, filled: Broker) -> None:
    with pytest.raises(PySparkException, match="did you mean 'value'"):
        reader(spark, filled).schema("valu binary").load().collect()


def test_offsets_to_begin_and_end_with(spark: Any, filled: Broker) -> None:
    given = {
        "startingOffsets": json.dumps({"t": {"0": 90, "1": -2}}),
        "endingOffsets": json.dumps({"t": {"0": -1, "1": 3}}),
    }
    assert places(reader(spark, filled, **given).load()) == offsets(0, range(90, ROWS)) + offsets(1, range(3))


def test_times_to_begin_and_end_with(spark: Any, filled: Broker) -> None:
    frame = reader(spark, filled, startingTimestamp=str(TIME + 95), endingTimestamp=str(TIME + 97)).load()
    assert places(frame) == offsets(0, (95, 96)) + offsets(1, (95, 96))
    each = {
        "startingOffsetsByTimestamp": json.dumps({"t": {"0": TIME + 98, "1": TIME}}),
        "endingOffsetsByTimestamp": json.dumps({"t": {"0": TIME + 5000, "1": TIME + 1}}),
    }
    assert places(reader(spark, filled, **each).load()) == offsets(0, (98, 99)) + offsets(1, (0,))


def test_a_time_behind_the_last_record(spark: Any, filled: Broker) -> None:
    later = {"startingTimestamp": str(TIME + 5000)}
    assert "has no record of that time or later" in refusal(spark, filled, **later)
    assert places(reader(spark, filled, **later, startingOffsetsByTimestampStrategy="latest").load()) == []


def test_where_the_group_stands(spark: Any, filled: Broker) -> None:
    consumer = Consumer({"bootstrap.servers": filled.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("t", 0, 97)], asynchronous=False)
    consumer.close()
    rest = reader(spark, filled, startingOffsets="group", group__id="g").load()
    done = reader(spark, filled, endingOffsets="group", group__id="g").load()
    assert places(rest) == offsets(0, range(97, ROWS)) + offsets(1, range(ROWS))
    assert places(done) == offsets(0, range(97)), "where it has committed nothing it has read nothing"


def test_topics_by_pattern_and_by_partition(spark: Any, broker: Broker) -> None:
    for topic in ("orders-eu", "orders-us", "my-orders-eu"):
        fill(broker, topic, 3, partitions=2)
    by_pattern = reader(spark, broker, subscribePattern="orders-.*").load()
    assert {row.topic for row in by_pattern.select("topic").collect()} == {"orders-eu", "orders-us"}
    assigned = reader(spark, broker, assign='{"orders-eu": [1], "orders-us": [0]}').load()
    assert places(assigned) == offsets(1, range(3), "orders-eu") + offsets(0, range(3), "orders-us")
    assert reader(spark, broker, subscribePattern="nothing.*").load().count() == 0


def test_several_topics_some_of_them_empty(spark: Any, broker: Broker) -> None:
    fill(broker, "a", 2)
    fill(broker, "b", 0, partitions=3)
    assert reader(spark, broker, subscribe="b").load().count() == 0
    assert places(reader(spark, broker, subscribe="a,b").load()) == offsets(0, range(2), "a")


def test_internal_topics_are_not_matched_by_patterns(spark: Any, filled: Broker) -> None:
    consumer = Consumer({"bootstrap.servers": filled.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()
    with Admin(filled.bootstrap_servers) as admin:
        assert "__consumer_offsets" in [topic.name for topic in admin.topics()]
    frame = reader(spark, filled, subscribePattern=".*").load()
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {"t"}


def test_every_codec(spark: Any, broker: Broker) -> None:
    for codec in Codec:
        create(broker.bootstrap_servers, f"t-{codec.name}")
        produce(broker.bootstrap_servers, f"t-{codec.name}", 0, numbered(1000, 50), codec=codec, per_batch=300)
    rows = reader(spark, broker, subscribePattern="t-.*").load().orderBy("topic", "offset").collect()
    assert [bytes(row.value) for row in rows] == [one.value for one in numbered(1000, 50)] * len(Codec)


def test_tasks(spark: Any, filled: Broker) -> None:
    def tasks(**options: str) -> int:
        frame = reader(spark, filled, **options).load()
        assert frame.count() == 2 * ROWS
        partitions: int = frame.rdd.getNumPartitions()
        return partitions

    assert tasks() == 1
    assert tasks(minPartitions="6") == 6
    assert tasks(maxRecordsPerPartition="30") == 8


def test_a_compacted_topic(spark: Any, broker: Broker) -> None:
    create(broker.bootstrap_servers, "t", cleanup_policy="compact", internal_segment_bytes="20000")
    records = [Record(0, TIME, b"%d" % (number % 7), b"%d" % number) for number in range(3000)]
    produce(broker.bootstrap_servers, "t", 0, records, per_batch=50)
    frame = reader(spark, broker).load().selectExpr("cast(key as string)", "cast(cast(value as string) as int) value")
    newest = {row.key: row.value for row in frame.groupBy("key").max("value").toDF("key", "value").collect()}
    assert newest == {str(key): max(n for n in range(3000) if n % 7 == key) for key in range(7)}


# -- what goes wrong


def test_a_topic_that_does_not_exist(spark: Any, filled: Broker) -> None:
    assert "topic 'orders' does not exist at" in refusal(spark, filled, subscribe="orders")
    assert "assign names t-7, which the cluster does not have" in refusal(spark, filled, assign='{"t": [0, 7]}')
    with Admin(filled.bootstrap_servers) as admin:
        assert "orders" not in [topic.name for topic in admin.topics()], "asking for it must not create it"


def test_a_broker_that_cannot_be_reached(spark: Any) -> None:
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    said = refusal(spark, address, kafka__default__api__timeout__ms="1500")
    assert f"cannot connect to {address}" in said
    assert "within 1.5 s" in said
    assert time.monotonic() - began < 60


def test_options_that_cannot_be(spark: Any, filled: Broker) -> None:
    assert "did you mean 'startingOffsets'?" in refusal(spark, filled, startingOffset="earliest")
    assert "leaves out t-1" in refusal(spark, filled, startingOffsets='{"t": {"0": 1}}')


def test_records_that_were_deleted(spark: Any, filled: Broker) -> None:
    begin = {"startingOffsets": '{"t": {"0": 10, "1": 95}}'}
    delete_before(filled.bootstrap_servers, "t", 40)
    said = refusal(spark, filled, **begin)
    assert "t-0 [10, 100): offsets 10 to 39 cannot be read: the log holds [40, 100) only" in said
    frame = reader(spark, filled, **begin, failOnDataLoss="false").load()
    assert places(frame) == offsets(0, range(40, ROWS)) + offsets(1, range(95, ROWS))


def test_an_end_that_nobody_has_written(spark: Any, filled: Broker) -> None:
    ending = {"endingOffsets": '{"t": {"0": 150, "1": 1}}'}
    assert "endingOffsets asks for t-0 up to 150, where the log ends at 100" in refusal(spark, filled, **ending)
    frame = reader(spark, filled, **ending, failOnDataLoss="false").load()
    assert places(frame) == offsets(0, range(ROWS)) + offsets(1, range(1))


def test_a_start_that_nobody_has_written(spark: Any, filled: Broker) -> None:
    starting = {"startingOffsets": '{"t": {"0": 150, "1": 100}}'}
    told = "startingOffsets asks for t-0 from 150 on, where the log ends at 100: name"
    assert told in refusal(spark, filled, **starting)
    assert places(reader(spark, filled, **starting, failOnDataLoss="false").load()) == []


def test_a_group_that_stands_behind_the_end(spark: Any, filled: Broker) -> None:
    """As after the topic was made anew."""
    consumer = Consumer({"bootstrap.servers": filled.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("t", 0, 150), TopicPartition("t", 1, 1)], asynchronous=False)
    consumer.close()
    begun = {"startingOffsets": "group", "group__id": "g"}
    ended = {"endingOffsets": "group", "group__id": "g"}
    assert "startingOffsets asks for t-0 from 150 on, where the log ends at 100" in refusal(spark, filled, **begun)
    assert "endingOffsets asks for t-0 up to 150, where the log ends at 100" in refusal(spark, filled, **ended)
    rest = reader(spark, filled, **begun, failOnDataLoss="false").load()
    done = reader(spark, filled, **ended, failOnDataLoss="false").load()
    assert places(rest) == offsets(1, range(1, ROWS))
    assert places(done) == offsets(0, range(ROWS)) + offsets(1, range(1))
