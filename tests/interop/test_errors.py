"""What the broker refuses reaches each client as that client's own error; and what it creates unasked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from aiokafka.errors import MessageSizeTooLargeError as AioTooLarge
from aiokafka.errors import UnknownTopicOrPartitionError as AioUnknown
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from equipoise.broker import Broker
from tests.interop.conftest import PARTITIONS, SETTINGS, open_driver
from tests.interop.drivers import AioKafka, Confluent, Driver, KafkaJs, KafkaPython, Kcat
from tests.interop.drivers.base import PATIENCE_S
from tests.interop.drivers.kafkajs import KafkaJsError
from tests.interop.drivers.kcat import KcatError
from tests.interop.records import START, Record

RECORD = Record(0, 0, START, b"key", b"value" * 1000, ())
LIMIT = 2000  # bytes, well below the record's


@pytest.fixture(scope="module")
def strict_broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def strict(strict_broker: Broker) -> Iterator[Callable[[str], Driver]]:
    """Opens a client of a broker that creates no topic unasked; and at the end, it has created none."""
    opened: list[Driver] = []

    def open_it(name: str) -> Driver:
        opened.append(open_driver(name, strict_broker.bootstrap_servers))
        return opened[-1]

    yield open_it
    for driver in opened:
        driver.close()
    assert strict_broker.call(lambda server: [topic.name for topic in server.topics]) == []


# -- too large


def small_topic(confluent: Confluent, topic: str) -> None:
    asked = NewTopic(topic, 1, config={"max.message.bytes": str(LIMIT)})
    confluent.admin.create_topics([asked])[topic].result(PATIENCE_S)


def is_too_large(error: Exception) -> bool:
    match error:
        case KafkaException():
            return bool(error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE)
        case MessageSizeTooLargeError():
            return f"is {LIMIT}" in str(error)  # the one client that shows the broker's words
        case KafkaJsError():
            return error.kind == "MESSAGE_TOO_LARGE"
        case KcatError():
            return "Broker: Message size too large" in str(error)
    return isinstance(error, AioTooLarge)


def test_record_too_large(client: Driver, confluent: Confluent, topic: str) -> None:
    small_topic(confluent, topic)
    with pytest.raises(Exception) as caught:
        client.produce(topic, [client.writable(RECORD)], "none")
    assert is_too_large(caught.value)
    assert client.consume_all(topic, 1) == []


def test_large_record_is_read_in_spite_of_fetch_limits(
    confluent: Confluent, kafka_python: KafkaPython, topic: str
) -> None:
    """The first batch is sent whatever its size: a small limit slows a consumer down, and never stops it."""
    records = [Record(0, offset, START, None, bytes([offset]) * 50_000, ()) for offset in range(4)]
    confluent.create_topic(topic, 1)
    for record in records:
        confluent.produce(topic, [record], "none")
    assert kafka_python.consume(topic, {0: 0}, max_partition_fetch_bytes=1000, fetch_max_bytes=1000) == records


# -- topics that are not there


def test_producing_creates_the_topic(client: Driver, topic: str) -> None:
    assert client.count_partitions(topic) is None
    client.produce(topic, [client.writable(RECORD)], "none")
    assert client.count_partitions(topic) == PARTITIONS
    (read,) = client.consume_all(topic, PARTITIONS)
    assert read.value == RECORD.value


def test_looking_does_not_create_the_topic(client: Driver, topic: str) -> None:
    assert client.count_partitions(topic) is None
    assert client.count_partitions(topic) is None


def test_confluent_unknown_topic(strict: Callable[[str], Driver], topic: str) -> None:
    client = strict(Confluent.name)
    assert isinstance(client, Confluent)
    (found,) = client.admin.list_topics(topic, timeout=PATIENCE_S).topics.values()
    assert found.error is not None
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    errors: list[KafkaError | None] = []
    with client.producer(topic_metadata_propagation_max_ms=1) as producer:
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
    assert [error and error.code() for error in errors] == [KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_kafka_python_unknown_topic(strict: Callable[[str], Driver], topic: str) -> None:
    client = strict(KafkaPython.name)
    assert isinstance(client, KafkaPython)
    (described,) = client.admin.describe_topics([topic])
    assert described["error_code"] == 3  # UNKNOWN_TOPIC_OR_PARTITION
    producer = client.producer(max_block_ms=300)
    try:
        with pytest.raises(KafkaTimeoutError):
            producer.send(topic, b"value")
    finally:
        producer.close()
    consumer = client.consumer()
    try:
        assert not consumer.partitions_for_topic(topic)
    finally:
        consumer.close()


def test_aiokafka_unknown_topic(strict: Callable[[str], Driver], topic: str) -> None:
    client = strict(AioKafka.name)
    assert isinstance(client, AioKafka)
    with pytest.raises(AioUnknown):
        client.with_producer(lambda producer: producer.send_and_wait(topic, b"value"), request_timeout_ms=1500)
    (described,) = client.with_admin(lambda admin: admin.describe_topics([topic]))
    assert described["error_code"] == 3  # UNKNOWN_TOPIC_OR_PARTITION


def test_kcat_unknown_topic(strict: Callable[[str], Driver], topic: str) -> None:
    client = strict(Kcat.name)
    assert isinstance(client, Kcat)
    with pytest.raises(KcatError, match="Broker: Unknown topic or partition"):
        client.run("-P", "-t", topic, "-X", "topic.metadata.propagation.max.ms=1", stdin=b"value\n")
    with pytest.raises(KcatError, match="Broker: Unknown topic or partition"):
        client.consume(topic, {0: 0})


def test_kafkajs_unknown_topic(strict: Callable[[str], Driver], topic: str) -> None:
    client = strict(KafkaJs.name)
    with pytest.raises(KafkaJsError) as caught:
        client.produce(topic, [RECORD], "none")
    assert caught.value.kind == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(KafkaJsError) as caught:
        client.consume(topic, {0: 0})
    assert caught.value.kind == "UNKNOWN_TOPIC_OR_PARTITION"
