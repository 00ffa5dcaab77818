"""What `groups lag` shows of groups whose offsets a transaction commits, and of topics that transactions write."""

from __future__ import annotations

import json

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Producer, TopicPartition
from tests.client.writing import Reachable
from tests.commands import Command
from tests.console.groups.kafka_scene import Scene


def figures(groups: Command, group_id: str) -> tuple[int, int, int]:
    """Committed, end and lag of the only partition."""
    (group,) = json.loads(groups("lag", group_id, "--json").out)["groups"]
    (one,) = group["partitions"]
    return one["committed"], one["log_end"], one["lag"]


def pending_offsets_do_not_count(broker: Reachable, groups: Command, topic: str, group_id: str) -> None:
    """The committed offset is the last one that counts. The end is that of the log, as in kafka-consumer-groups: what
    an open transaction has written is lag, although a reader with read_committed may not have it yet."""
    place = TopicPartition(topic, 0)
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets(group_id, {place: 2})
    before = figures(groups, group_id)
    settings = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": f"{group_id}-1"}
    with Producer(**settings) as producer:
        producer.begin_transaction()
        for _ in range(3):
            producer.send(topic, b"x", partition=0).result(60)
        producer.send_offsets({place: 5}, group_id)
        end = before[1] + 3
        assert figures(groups, group_id) == (2, end, end - 2)
        producer.abort_transaction()
        end += 1  # the end of a transaction takes an offset
        assert figures(groups, group_id) == (2, end, end - 2)
        producer.begin_transaction()
        producer.send_offsets({place: 5}, group_id)
        producer.commit_transaction()
    assert figures(groups, group_id) == (5, end, end - 5)


def test_pending_offsets_do_not_count(broker: Broker, groups: Command) -> None:
    with Admin(broker.bootstrap_servers) as admin, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        admin.create_topic("orders", 1)
        for _ in range(10):
            producer.send("orders", b"x")
    pending_offsets_do_not_count(broker, groups, "orders", "billing")


@pytest.mark.kafka
def test_pending_offsets_do_not_count_on_apache_kafka(kafka_groups: Command, scene: Scene) -> None:
    pending_offsets_do_not_count(scene.kafka, kafka_groups, scene.topic, scene.group)
