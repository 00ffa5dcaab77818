"""A broker of three that hangs, coordinator and leader at once: the member finds the new ones within its session."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import pytest

from equipoise.client import Consumer, RebalanceListener, TopicPartition
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
