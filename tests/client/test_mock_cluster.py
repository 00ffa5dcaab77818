"""Admin against a foreign broker: librdkafka's mock cluster, as far as it serves these APIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin
from equipoise.client.admin import PartitionOffsets
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

BROKERS = 3


@pytest.fixture(scope="module")
def mock() -> Producer:
    """The client whose process holds the cluster."""
    return Producer({"test.mock.num.brokers": BROKERS, "log_level": 3})


@pytest.fixture
def admin(mock: Producer) -> Iterator[Admin]:
    first = min(mock.list_topics(timeout=60).brokers.items())[1]
    with Admin(f"{first.host}:{first.port}") as connected:
        yield connected


def test_the_cluster_is_seen_as_its_own_client_sees_it(admin: Admin, mock: Producer) -> None:
    seen = {one.node_id: (one.host, one.port) for one in admin.cluster().brokers}
    assert seen == {node: (one.host, one.port) for node, one in mock.list_topics(timeout=60).brokers.items()}
    assert len(seen) == BROKERS


def test_offsets_are_asked_of_each_partitions_leader(admin: Admin, mock: Producer) -> None:
    for count in range(4):
        for _ in range(count):
            mock.produce("offsets", b"x", partition=count)
    assert mock.flush(60) == 0
    topic = next(topic for topic in admin.topics() if topic.name == "offsets")
    leaders = {one.partition: one.leader_id for one in topic.partitions}
    assert leaders == {
        index: one.leader for index, one in mock.list_topics("offsets", timeout=60).topics["offsets"].partitions.items()
    }
    assert admin.offsets("offsets") == {partition: PartitionOffsets(0, partition) for partition in range(4)}


def test_a_topic_that_is_not_there(admin: Admin) -> None:
    with pytest.raises(KafkaError, match="'nothing'") as caught:
        admin.topic("nothing")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_the_mock_cluster_does_not_serve_is_said(admin: Admin) -> None:
    attempts: dict[str, Callable[[], object]] = {
        "CreateTopics": lambda: admin.create_topic("orders"),
        "DeleteTopics": lambda: admin.delete_topic("orders"),
        "CreatePartitions": lambda: admin.add_partitions("orders", 2),
        "DescribeConfigs": lambda: admin.configs("orders"),
    }
    for name, attempt in attempts.items():
        with pytest.raises(UsageError, match=f"does not serve {name}"):
            attempt()
