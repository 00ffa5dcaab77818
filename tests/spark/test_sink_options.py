"""Options of the sink: Java's names, defaults and bounds; what is unknown or means something else is refused."""

from __future__ import annotations

import pickle
import re

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from equipoise.broker import Broker
from equipoise.member.partitions import TopicPartition
from equipoise.settings import render
from equipoise.spark.sink import sink, writing
from equipoise.spark.sink.options import PRODUCER_WITHOUT_EFFECT, SinkOptions, rows
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import Codec
from tests.test_documents import ROOT

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
EXACT = SERVERS | {"topic": "a", "delivery": "exactly-once"}


def test_names_are_those_of_the_java_producer() -> None:
    given = {"kafka.Compression.Type": "zstd", "kafka.batch.size": "50000", "topic": "orders", "kafka.acks": "-1"}
    options = SinkOptions.parse(SERVERS | given)
    assert options.topic == "orders"
    assert (options.producer.codec, options.producer.batch_size) == (Codec.ZSTD, 50_000)
    assert (options.producer.acks, options.producer.enable_idempotence) == ("all", True)
    assert pickle.loads(pickle.dumps(options)) == options


def test_what_has_no_effect_is_accepted() -> None:
    given = {"kafka.linger.ms": "5", "kafka.retries": "3", "includeHeaders": "true", "queryName": "x"}
    assert SinkOptions.parse(SERVERS | given) == SinkOptions.parse(SERVERS)


def test_exactly_once_has_a_prefix_and_a_long_time() -> None:
    options = SinkOptions.parse(SERVERS | {"delivery": "exactly-once", "topic": "a"})
    assert (options.producer.transactional_id, options.producer.transaction_timeout_ms) == ("equipoise", 900_000)
    assert options.anchor == TopicPartition("a", 0)
    given = {"delivery": "exactly-once", "decision.topic": "b", "kafka.transactional.id": "shop"}
    other = SinkOptions.parse(SERVERS | given | {"kafka.transaction.timeout.ms": "5000"})
    assert (other.producer.transactional_id, other.producer.transaction_timeout_ms) == ("shop", 5_000)
    assert (other.anchor, other.topic) == (TopicPartition("b", 0), None)


def test_acks_1_goes_without_numbers() -> None:
    assert not SinkOptions.parse(SERVERS | {"kafka.acks": "1"}).producer.enable_idempotence


REFUSED = [
    ({}, "kafka.bootstrap.servers is missing"),
    (SERVERS | {"kafka.compresion.type": "lz4"}, "did you mean 'compression.type'"),
    (SERVERS | {"topics": "a"}, "unknown option 'topics'; did you mean 'topic'"),
    (SERVERS | {"topic": " "}, "the option topic is empty"),
    (SERVERS | {"kafka.compression.type": "brotli"}, "must be one of none, gzip, snappy, lz4, zstd"),
    (SERVERS | {"kafka.acks": "0"}, "without an answer a task cannot know"),
    (SERVERS | {"kafka.acks": "2"}, "acks=2: must be one of all, 1"),
    (SERVERS | {"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "enable.idempotence=true needs acks=all"),
    (SERVERS | {"kafka.max.in.flight.requests.per.connection": "6"}, "must be between 1 and 5"),
    (SERVERS | {"kafka.key.serializer": "x"}, "key.serializer is not for Spark: the column key is written as it is"),
    (SERVERS | {"kafka.transactional.id": "x"}, "transactions need the option delivery"),
    (SERVERS | {"delivery": "twice"}, "delivery=twice: it is at-least-once or exactly-once"),
    (SERVERS | {"delivery": "exactly-once"}, "needs the option decision.topic"),
    (SERVERS | {"delivery": "exactly-once", "topic": "a", "kafka.acks": "1"}, "transactional.id needs acks=all"),
    (SERVERS | {"delivery": "exactly-once", "topic": "a", "group.id": "g"}, "needs the option checkpointLocation"),
    (SERVERS | {"topic": "a", "group.id": "g"}, "need delivery=exactly-once"),
    (EXACT | {"on.lost.transaction": "retry"}, "on.lost.transaction=retry: it is fail or rewrite"),
    (SERVERS | {"topic": "a", "on.lost.transaction": "rewrite"}, "without it nothing is lost"),
    (
        EXACT | {"on.lost.transaction": "rewrite", "group.id": "g", "checkpointLocation": "c"},
        "does not go with group.id of the sink",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refusals_say_what_to_do(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SinkOptions.parse(options)


TEXT, INT, LONG = StringType(), IntegerType(), LongType()
Columns = list[tuple[str, DataType]]
SCHEMAS: list[tuple[Columns, str]] = [
    ([("key", TEXT)], "there is no column value; the columns are key: name one so"),
    ([("value", TEXT)], "no topic is given: set the option topic, or give a column topic"),
    ([("value", INT)], "the column value is int, and must be string or binary: cast it"),
    ([("value", TEXT), ("key", LONG)], "the column key is bigint, and must be string or binary"),
    ([("value", TEXT), ("topic", BinaryType())], "the column topic is binary, and must be string"),
    ([("value", TEXT), ("partition", LONG)], "the column partition is bigint, and must be int"),
    ([("value", TEXT), ("headers", MapType(TEXT, BinaryType()))], "the column headers is map"),
    ([("value", TEXT), ("headers", ArrayType(TEXT))], "must be array<struct<key:string,value:binary>>"),
    ([("value", TEXT), ("value", TEXT)], "there are 2 columns value: keep one"),
]


def schema_of(columns: Columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


@pytest.mark.parametrize(("columns", "message"), SCHEMAS)
def test_wrong_columns_are_refused_when_the_query_is_planned(columns: Columns, message: str) -> None:
    for writer in (sink.batch_writer, sink.stream_writer):
        with pytest.raises(UsageError, match=message):
            writer(schema_of(columns), SERVERS)


def test_an_unknown_topic_is_refused_when_the_query_is_planned() -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "nowhere", "kafka.max.block.ms": "200"}
        with pytest.raises(KafkaError, match="topic 'nowhere' does not exist"):
            sink.batch_writer(schema_of([("value", TEXT)]), options)
        writing.forget_all()


def test_the_page_lists_the_settings() -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8").partition("## The sink")[2]
    listed = re.findall(r"^\| `kafka\.(.+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    defaults = {name: "(none)" if row.default is None else render(row.default) for name, row in rows().items()}
    assert listed == [(name, defaults[name] or "(empty)", row.metadata["doc"]) for name, row in rows().items()]
    without_effect = page.partition("Accepted without effect:")[2].partition("Refused")[0]
    assert re.findall(r"`kafka\.([^`]+)`", without_effect) == list(PRODUCER_WITHOUT_EFFECT)
