"""A broker of three that hangs, coordinator and leader at once: the member finds the new ones within its session."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import pytest

from equipoise.client import Consumer, Producer, RebalanceListener, TopicPartition
from proving.kafka_cluster import KafkaCluster, Servers
from tests.client.writing import produce

pytestmark = pytest.mark.kafka

PATIENCE_S = 120.0
SESSION_S = 45.0  # the default
EACH = 300


class Lost(RebalanceListener):
    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def on_lost(self, consumer: object, lost: Iterable[TopicPartition]) -> None:
        self.partitions |= set(lost)


def test_a_member_outlives_a_coordinator_that_hangs(kafka_cluster: KafkaCluster) -> None:
    topic, listener = f"hung-{uuid.uuid4()}", Lost()
    kafka_cluster.create_topic(topic, 3)
    produce(kafka_cluster, topic, EACH)
    seen: list[tuple[int, int]] = []

    def read(consumer: Consumer, count: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while len(seen) < count:
            assert time.monotonic() < end, f"{len(seen)} of {count}"
            seen.extend((one.partition, one.offset) for one in consumer.poll(0.2))

    settings = {
        "bootstrap_servers": kafka_cluster.bootstrap_servers,
        "group_id": topic,
        "auto_offset_reset": "earliest",
    }
    with Consumer(**settings, auto_commit_interval_ms=1000) as consumer:
        consumer.subscribe(topic, listener)
        read(consumer, EACH)
        consumer.commit()
        generation = consumer.generation_id
        hung = kafka_cluster.coordinator_of(topic)
        began = time.monotonic()
        kafka_cluster.hang(hung)
        kafka_cluster.coordinator_of(topic)  # until there is another
        produce(Servers(",".join(one.address for one in kafka_cluster.live)), topic, EACH)
        read(consumer, 2 * EACH)
        consumer.commit()
        took = time.monotonic() - began
        assert {at.offset for at in consumer.committed().values()} == {2 * EACH // 3}
        assert (consumer.generation_id, listener.partitions) == (generation, set())
    assert took < SESSION_S, f"{took:.0f} s"
    assert len(set(seen)) == len(seen) == 2 * EACH
    kafka_cluster.mend()
    kafka_cluster.delete_topic(topic)


def test_a_producer_leaves_a_leader_that_hangs(kafka_cluster: KafkaCluster) -> None:
    """As soon as there is another, and not after request.timeout.ms; each record is stored once and in order."""
    topic = f"hung-leader-{uuid.uuid4()}"
    kafka_cluster.create_topic(topic, 1)
    with Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "request.timeout.ms": int(PATIENCE_S * 1000)}
    ) as producer:
        for number in range(EACH):
            producer.send(topic, b"%d" % number)
        producer.flush()
        began = time.monotonic()
        kafka_cluster.hang(kafka_cluster.leader_of(topic))
        for number in range(EACH, 2 * EACH):
            producer.send(topic, b"%d" % number)
        producer.flush()
        took = time.monotonic() - began
    assert took < PATIENCE_S / 2, f"{took:.0f} s"
    kafka_cluster.mend()
    with Consumer(bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[int] = []
        while len(values) < 2 * EACH:
            values += [int(record.value or b"") for record in consumer.poll(1)]
    assert values == list(range(2 * EACH))
    kafka_cluster.delete_topic(topic)
