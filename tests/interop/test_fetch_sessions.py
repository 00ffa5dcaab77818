"""Incremental fetch sessions (KIP-227) with kafka-python, the one client here that asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition

from equipoise.broker import Broker
from equipoise.broker.topics.fetch_sessions import FetchSession
from tests.interop.conftest import PARTITIONS
from tests.interop.drivers import KafkaPython
from tests.interop.drivers.base import Deadline
from tests.interop.records import START, Record


@pytest.fixture
def consumer(kafka_python: KafkaPython, topic: str) -> Iterator[KafkaConsumer]:
    """Assigned to all partitions of a new topic, at the beginning."""
    kafka_python.create_topic(topic, PARTITIONS)
    consumer = kafka_python.consumer(enable_incremental_fetch_sessions=True, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    yield consumer
    consumer.close()


def sessions(broker: Broker) -> list[FetchSession]:
    return broker.call(lambda server: list(server.fetch_sessions._sessions.values()))


def session(broker: Broker, topic: str) -> FetchSession | None:
    """The session in which the topic is fetched; kafka-python fetches by name, not by id."""
    found = [one for one in sessions(broker) if any(key[0] == topic for key in one.partitions)]
    assert len(found) <= 1
    return found[0] if found else None


def record(partition: int, offset: int, value: bytes) -> Record:
    return Record(partition, offset, START, None, value, ())


def poll_values(consumer: KafkaConsumer, count: int) -> list[tuple[int, bytes]]:
    """Polls until `count` records have come; each as its partition and value."""
    values: list[tuple[int, bytes]] = []
    deadline = Deadline("poll")
    while len(values) < count:
        deadline.check()
        for batch in consumer.poll(timeout_ms=100).values():
            values += [(message.partition, message.value) for message in batch]
    return sorted(values)


def poll_past_epoch(consumer: KafkaConsumer, broker: Broker, topic: str, epoch: int) -> FetchSession:
    """Polls until the topic's session has gone beyond `epoch`; nothing may come meanwhile."""
    deadline = Deadline("poll")
    while (found := session(broker, topic)) is None or found.epoch <= epoch:
        deadline.check()
        assert consumer.poll(timeout_ms=20) == {}
    return found


def test_records_come_through_a_session(
    broker: Broker, consumer: KafkaConsumer, kafka_python: KafkaPython, topic: str
) -> None:
    before = poll_past_epoch(consumer, broker, topic, epoch=2)
    assert len(before.partitions) == PARTITIONS
    for turn in range(3):
        kafka_python.produce(topic, [record(partition, turn, b"%d" % turn) for partition in (1, 4)], "none")
        assert poll_values(consumer, 2) == [(1, b"%d" % turn), (4, b"%d" % turn)]
    after = session(broker, topic)
    assert after is not None
    assert after.session_id == before.session_id
    assert after.epoch > 3


def test_a_partition_is_forgotten_and_taken_back(
    broker: Broker, consumer: KafkaConsumer, kafka_python: KafkaPython, topic: str
) -> None:
    first = poll_past_epoch(consumer, broker, topic, epoch=1)
    consumer.pause(TopicPartition(topic, 0))
    deadline = Deadline("the session forgets partition 0")
    while (topic, 0) in first.partitions:
        deadline.check()
        consumer.poll(timeout_ms=20)
    kafka_python.produce(topic, [record(0, 0, b"unseen"), record(1, 0, b"seen")], "none")
    assert poll_values(consumer, 1) == [(1, b"seen")]
    consumer.resume(TopicPartition(topic, 0))
    assert poll_values(consumer, 1) == [(0, b"unseen")]
    again = session(broker, topic)
    assert again is not None
    assert again.session_id == first.session_id


def test_a_session_the_broker_has_lost_begins_anew(
    broker: Broker, consumer: KafkaConsumer, kafka_python: KafkaPython, topic: str
) -> None:
    lost = poll_past_epoch(consumer, broker, topic, epoch=1)
    broker.call(lambda server: server.fetch_sessions._sessions.clear())
    kafka_python.produce(topic, [record(2, 0, b"after")], "none")
    assert poll_values(consumer, 1) == [(2, b"after")]
    new = poll_past_epoch(consumer, broker, topic, epoch=1)
    assert new.session_id != lost.session_id


def test_no_session_when_the_client_wants_none(broker: Broker, kafka_python: KafkaPython, topic: str) -> None:
    kafka_python.create_topic(topic, PARTITIONS)
    consumer = kafka_python.consumer(enable_incremental_fetch_sessions=False, auto_offset_reset="earliest")
    try:
        consumer.assign([TopicPartition(topic, 0)])
        kafka_python.produce(topic, [record(0, 0, b"plain")], "none")
        assert poll_values(consumer, 1) == [(0, b"plain")]
        assert session(broker, topic) is None
    finally:
        consumer.close()
