"""What a task of the sink writes, without Spark: every row once and in order, whatever happens to the broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from equipoise.broker import Broker
from equipoise.client import Admin, KafkaConnectionError
from equipoise.spark.sink import writing
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.writing import write
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.arrow import SCHEMA
from proving.brokers import SOON_BACK, BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.members.confluent_kafka_member import row_of
from proving.trials.writing import end_offset
from tests.client.writing import Reachable
from tests.interop.lossy import LossyProxy

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
HEADERS = SCHEMA.field("headers").type
QUICK = {"kafka.retry.backoff.ms": "10", "kafka.retry.backoff.max.ms": "50"}


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    yield
    writing.forget_all()


def options(broker: Reachable | str, topic: str | None = "orders", **more: str) -> SinkOptions:
    address = broker if isinstance(broker, str) else broker.bootstrap_servers
    given = {"kafka.bootstrap.servers": address} | QUICK | {f"kafka.{k.replace('_', '.')}": v for k, v in more.items()}
    return SinkOptions.parse(given | ({"topic": topic} if topic else {}))


def create(broker: Reachable, topic: str = "orders", partitions: int = 3, **configs: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in configs.items()})


def batches(rows: int, at_once: int = 1000, *, size: int = 20, keys: int | None = 50) -> Iterator[pa.RecordBatch]:
    """Values are numbers, filled up to `size`; row by row of Arrow batches."""
    for first in range(0, rows, at_once):
        numbers = range(first, min(rows, first + at_once))
        columns = {"value": pa.array([str(number).rjust(size).encode() for number in numbers], pa.binary())}
        if keys is not None:
            columns["key"] = pa.array([f"key-{number % keys}".encode() for number in numbers], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


def read(broker: Reachable, topic: str = "orders", partitions: int = 3) -> dict[int, list[Message]]:
    """All there is, by partition, through librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "log_level": 0})
    found: dict[int, list[Message]] = {number: [] for number in range(partitions)}
    try:
        places = [TopicPartition(topic, number) for number in found]
        ends = {place.partition: end_offset(consumer, place) for place in places}
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        while any(len(found[number]) < end for number, end in ends.items()):
            for message in consumer.consume(1000, 0.05):
                assert not message.error(), message.error()
                found[row_of(message)[1]].append(message)
    finally:
        consumer.close()
    return found


def numbers(found: dict[int, list[Message]]) -> list[int]:
    return sorted(int(message.value() or b"") for messages in found.values() for message in messages)


def assert_once_and_in_order(found: dict[int, list[Message]], rows: int) -> None:
    assert numbers(found) == list(range(rows))
    for messages in found.values():
        values = [int(message.value() or b"") for message in messages]
        assert values == sorted(values)


def producers_known(broker: Broker) -> list[Any]:
    return broker.call(lambda server: server.topics.partition("orders", 0).log.producers.to_json())


@pytest.mark.parametrize("codec", CODECS)
def test_rows_are_stored_once_and_in_order_with_every_codec(broker: Broker, codec: str) -> None:
    create(broker)
    assert write(batches(5000), options(broker, compression_type=codec)) == 5000
    assert_once_and_in_order(read(broker), 5000)


def test_tasks_of_one_process_follow_each_other(broker: Broker) -> None:
    create(broker)
    for first in range(3):
        rows = [batch for number, batch in enumerate(batches(3000)) if number == first]
        assert write(iter(rows), options(broker)) == 1000
    assert_once_and_in_order(read(broker), 3000)
    assert len(producers_known(broker)) == 1


def test_keys_go_to_the_partitions_of_the_java_producer(broker: Broker) -> None:
    create(broker, "ours", 7)
    create(broker, "theirs", 7)
    write(batches(500, keys=500), options(broker, "ours"))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for number in range(500):
        producer.produce("theirs", str(number).rjust(20).encode(), key=f"key-{number}".encode())
    assert producer.flush(30) == 0
    ours, theirs = read(broker, "ours", 7), read(broker, "theirs", 7)
    assert [numbers({0: ours[n]}) for n in range(7)] == [numbers({0: theirs[n]}) for n in range(7)]


def test_rows_without_keys_fill_batches_of_all_partitions(broker: Broker) -> None:
    create(broker)
    write(batches(3000, keys=None), options(broker, batch_size="10000"))
    found = read(broker)
    assert numbers(found) == list(range(3000))
    assert all(800 < len(messages) < 1200 for messages in found.values())


def test_columns_say_topic_partition_and_headers(broker: Broker) -> None:
    create(broker, "left", 2)
    create(broker, "right", 2)
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": ["left", "right", "left", "right"],
            "key": ["a", None, "b", "c"],
            "value": ["0", "1", None, "3"],
            "partition": pa.array([1, 0, None, 1], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, [], []], HEADERS),
        }
    )
    write(iter([rows]), options(broker, None))
    left, right = read(broker, "left", 2), read(broker, "right", 2)
    assert next((m.key(), m.value(), m.headers()) for m in left[1]) == (b"a", b"0", [("h", b"x"), ("h", None)])
    assert [(m.key(), m.value(), m.headers()) for m in right[0]] == [(None, b"1", None)]
    assert [(m.key(), m.value()) for m in right[1]] == [(b"c", b"3")]
    assert [(m.key(), m.value()) for messages in left.values() for m in messages if m.value() is None] == [(b"b", None)]


def test_the_option_topic_goes_before_the_column(broker: Broker) -> None:
    create(broker)
    write(iter([pa.RecordBatch.from_pydict({"topic": [None, "x"], "value": ["0", "1"]})]), options(broker))
    assert numbers(read(broker)) == [0, 1]


def test_a_topic_that_has_grown_since_the_last_task(broker: Broker) -> None:
    create(broker)
    write(batches(30), options(broker))
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 5)
    rows = {"value": pa.array([b"new"], pa.binary()), "partition": pa.array([4], pa.int32())}
    write(iter([pa.RecordBatch.from_pydict(rows)]), options(broker))
    assert [message.value() for message in read(broker, partitions=5)[4]] == [b"new"]


def test_a_topic_that_was_recreated_since_the_last_task(broker: Broker) -> None:
    """The numbers of the producer go on, which the new topic has not seen the first of."""
    create(broker)
    write(batches(30), options(broker))
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topic("orders")
    create(broker)
    write(batches(30), options(broker))
    assert sum(map(len, read(broker).values())) == 30


def test_no_rows_are_no_batches(broker: Broker) -> None:
    create(broker)
    empty = pa.RecordBatch.from_pydict({"value": pa.array([], pa.binary())})
    assert write(iter([empty]), options(broker)) == 0
    assert write(iter([]), options(broker)) == 0


def test_batches_fit_the_topic_that_takes_only_small_ones(broker: Broker) -> None:
    create(broker, max_message_bytes="5000")
    write(batches(2000), options(broker))
    assert_once_and_in_order(read(broker), 2000)


def test_with_acks_1_there_are_no_numbers(broker: Broker) -> None:
    create(broker)
    write(batches(2000), options(broker, acks="1"))
    assert_once_and_in_order(read(broker), 2000)
    assert producers_known(broker) == []


# -- what is refused


def write_one(broker: Broker, **columns: Any) -> None:
    write(iter([pa.RecordBatch.from_pydict(columns)]), options(broker, columns.pop("option", None)))


REFUSALS = {
    "null topic": ({"topic": ["orders", None], "value": ["", ""]}, "row 2 has null as its topic: fill the column"),
    "partition": (
        {"topic": ["orders"], "value": [""], "partition": pa.array([3], pa.int32())},
        "row 1 is for partition 3 of topic 'orders', which has 3, from 0 to 2",
    ),
    "negative partition": (
        {"topic": ["orders"], "value": [""], "partition": pa.array([-1], pa.int32())},
        "row 1 is for partition -1 of topic 'orders'",
    ),
    "size": (
        {"topic": ["orders"] * 3, "value": ["", "", "x" * 2_000_000]},
        "row 3 takes 2000093 bytes as a record of topic 'orders', and max.request.size is 1048576: raise it",
    ),
    "header": (
        {"topic": ["orders"], "value": [""], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)},
        "a header without a key",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_the_row_at_fault_is_named(broker: Broker, what: str) -> None:
    create(broker)
    columns, message = REFUSALS[what]
    with pytest.raises(UsageError, match=message):
        write_one(broker, **columns)


def test_a_record_that_the_topic_does_not_take_is_named(broker: Broker) -> None:
    create(broker, partitions=1, max_message_bytes="1000")
    rows = pa.RecordBatch.from_pydict({"value": ["a", "b", "c" * 2000, "d"]})
    with pytest.raises(KafkaError, match=r"row 3, for orders-0, not stored: .*raise max.message.bytes of the topic$"):
        write(iter([rows]), options(broker))


def test_an_unknown_topic_is_named() -> None:
    with (
        Broker({"auto.create.topics.enable": "false"}) as broker,
        pytest.raises(KafkaError, match="topic 'orders' does not exist, and the cluster does not create it"),
    ):
        write(batches(1), options(broker, max_block_ms="1500"))


def test_a_topic_is_created_where_the_broker_does_so(broker: Broker) -> None:
    write(batches(10), options(broker))
    assert_once_and_in_order(read(broker, partitions=1), 10)


def test_nobody_there_is_said_after_max_block_ms() -> None:
    with pytest.raises(KafkaConnectionError, match=r"cannot connect to 127.0.0.1:1.*\(tried for 200 ms\)"):
        write(batches(1), options("127.0.0.1:1", max_block_ms="200"))


# -- what goes wrong on the way


def test_lost_answers_do_not_store_anything_twice() -> None:
    with LossyProxy(answers_to_lose=6) as proxy, Broker({"advertised.listeners": proxy.address}) as broker:
        proxy.target = broker.server.address
        create(broker)
        write(batches(20_000, 200), options(proxy.address, batch_size="2000"))
        assert proxy.lost == 6
        assert_once_and_in_order(read(broker), 20_000)


def broken_once(batches: Iterator[pa.RecordBatch], at: int, breaking: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if number == at:
            breaking()
        yield batch


def write_while_killed(broker: BrokerProcess, rows: int) -> None:
    """A quarter on the way the broker is killed, and started again."""
    restart = threading.Thread(target=broker.start)

    def kill() -> None:
        broker.kill()
        restart.start()

    create(broker)
    some = broken_once(batches(rows, rows // 20, size=2000), 5, kill)
    write(some, options(broker, batch_size="100000"))
    restart.join()


def test_a_broker_that_is_killed_and_comes_back_has_every_row_once() -> None:
    with EquipoiseBroker() as broker:
        write_while_killed(broker, 40_000)
        assert_once_and_in_order(read(broker), 40_000)


def test_a_broker_that_stays_away_is_an_error_in_time() -> None:
    with EquipoiseBroker() as broker:
        create(broker)
        rows = broken_once(batches(20_000, 2000, size=2000), 5, broker.kill)
        with pytest.raises(KafkaError, match=r"row \d+ .*, for orders-\d, not stored within 300 ms"):
            write(rows, options(broker, delivery_timeout_ms="300"))


def test_after_an_error_the_next_task_begins_anew(broker: Broker) -> None:
    create(broker)
    with pytest.raises(UsageError):
        write_one(broker, topic=["orders", None], value=["", ""])
    write(batches(1000), options(broker))
    assert_once_and_in_order(read(broker), 1000)


@pytest.mark.kafka
@pytest.mark.parametrize("codec", CODECS)
def test_apache_kafka_takes_the_same_batches(kafka: KafkaBroker, codec: str) -> None:
    create(kafka, f"orders-{codec}")
    write(batches(5000), options(kafka, f"orders-{codec}", compression_type=codec))
    assert_once_and_in_order(read(kafka, f"orders-{codec}"), 5000)


@pytest.mark.kafka
def test_apache_kafka_killed_and_back_has_every_row_once() -> None:
    with KafkaBroker(SOON_BACK) as broker:
        write_while_killed(broker, 40_000)
        assert_once_and_in_order(read(broker), 40_000)
