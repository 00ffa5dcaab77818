"""The same quota and the same requests: our broker throttles as long as Apache Kafka does. Users on both."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from equipoise.client import Admin
from proving.brokers import BrokerProcess, KafkaBroker, MemoryBroker
from tests.broker.calls import BY_NAME, batch_of, fetch_request, produce_request
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_client_quotas import described, set_quota
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka
BOUND = 1000


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[BrokerProcess]]:
    with needed(KafkaBroker) as kafka, MemoryBroker() as ours:
        for broker in (kafka, ours):
            with Admin(broker.bootstrap_servers) as admin:
                admin.create_topic("t", 1)
        yield [kafka, ours]


def throttled(broker: BrokerProcess, key: str) -> tuple[list[int], int]:
    """The throttle times that requests are told, and the bytes that the last Fetch got."""
    with RawClient(broker.bootstrap_servers) as client:
        for _ in range(30):
            client.call(produce_request(batch_of(b"x" * 900)), BY_NAME)
        set_quota(client, key, BOUND)
        eventually(lambda: key in described(client).get(("raw",), {}), "the quota is in force")
        if key == "producer_byte_rate":
            times = [client.call(produce_request(batch_of(b"x" * 6000)), BY_NAME).throttle_time_ms for _ in range(2)]
            size = 0
        else:
            answers = [
                client.call(fetch_request(0, max_wait_ms=100, partition_max_bytes=6800), BY_NAME) for _ in range(2)
            ]
            times = [answer.throttle_time_ms for answer in answers]
            size = sum(len(row.records or b"") for topic in answers[0].responses for row in topic.partitions)
            assert answers[1].responses == []
    with RawClient(broker.bootstrap_servers) as other:  # the first connection is muted
        set_quota(other, key, None)
    return times, size


@pytest.mark.parametrize("key", ["producer_byte_rate", "consumer_byte_rate"])
def test_throttle_times_are_those_of_kafka(brokers: list[BrokerProcess], key: str) -> None:
    (kafka, kafka_size), (ours, our_size) = (throttled(broker, key) for broker in brokers)
    assert kafka[0] == ours[0] == 0
    assert kafka[1] > 0
    assert ours[1] == pytest.approx(kafka[1], rel=0.3)
    assert our_size == pytest.approx(kafka_size, rel=0.15)


def described_by(admin: Admin, iterations: dict[str, int]) -> bool:
    return admin.users() == ([("alice", iterations)] if iterations else [])


def test_our_admin_manages_users_on_both(brokers: list[BrokerProcess]) -> None:
    """Kafka answers a change before its broker describes it."""
    for broker in brokers:
        with Admin(broker.bootstrap_servers) as admin:
            admin.set_password("alice", "a secret", mechanism="SCRAM-SHA-512", iterations=8192)
            admin.set_password("alice", "a secret")
            eventually(
                partial(described_by, admin, {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}), "the user is there"
            )
            admin.remove_user("alice")
            eventually(partial(described_by, admin, {}), "the user is gone")
