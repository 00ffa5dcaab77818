"""Admin against our broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.client import Admin, KafkaConnectionError
from equipoise.client.admin import PartitionOffsets
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.errors import TlsError
from equipoise.security.sasl.scram import credential, salted_password
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(broker.bootstrap_servers) as connected:
        yield connected


def test_a_topic_from_its_creation_to_its_end(admin: Admin) -> None:
    admin.create_topic("orders", 3, {"retention.ms": "60000"})
    admin.create_topic("audit")
    assert [(topic.name, len(topic.partitions)) for topic in admin.topics()] == [("audit", 1), ("orders", 3)]
    assert admin.configs("orders") == {"retention.ms": "60000"}
    admin.add_partitions("orders", 5)
    assert [one.partition for one in admin.topic("orders").partitions] == [0, 1, 2, 3, 4]
    admin.delete_topic("orders")
    assert [topic.name for topic in admin.topics()] == ["audit"]


def test_partitions_name_their_leader_and_replicas(admin: Admin) -> None:
    admin.create_topic("orders", 1)
    (partition,) = admin.topic("orders").partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])


def test_a_topic_keeps_its_id_and_gets_another_when_made_anew(admin: Admin) -> None:
    admin.create_topic("orders")
    first = admin.topic("orders").topic_id
    assert any(first)
    assert admin.topic("orders").topic_id == first
    admin.delete_topic("orders")
    admin.create_topic("orders")
    assert admin.topic("orders").topic_id != first


def test_offsets_follow_what_is_produced(admin: Admin, broker: Broker) -> None:
    admin.create_topic("orders", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(5):
        producer.produce("orders", b"x", partition=1)
    producer.flush()
    assert admin.offsets("orders") == {0: PartitionOffsets(0, 0), 1: PartitionOffsets(0, 5)}


def test_the_cluster_names_its_brokers(admin: Admin, broker: Broker) -> None:
    cluster = admin.cluster()
    assert cluster.cluster_id
    assert cluster.controller_id == cluster.brokers[0].node_id == 1
    assert [f"{one.host}:{one.port}" for one in cluster.brokers] == [broker.bootstrap_servers]


def test_asking_for_a_topic_does_not_create_it(admin: Admin) -> None:
    for ask in (admin.topic, admin.offsets, admin.configs):
        with pytest.raises(KafkaError, match="'nothing'") as caught:
            ask("nothing")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.topics() == []


def test_a_refusal_comes_in_the_brokers_words(admin: Admin) -> None:
    admin.create_topic("orders")
    refused: dict[ErrorCode, Callable[[], object]] = {
        ErrorCode.TOPIC_ALREADY_EXISTS: lambda: admin.create_topic("orders"),
        ErrorCode.INVALID_PARTITIONS: lambda: admin.add_partitions("orders", 1),
        ErrorCode.INVALID_CONFIG: lambda: admin.create_topic("other", 1, {"retention": "1"}),
        ErrorCode.INVALID_TOPIC_EXCEPTION: lambda: admin.create_topic("no spaces"),
        ErrorCode.INVALID_REPLICATION_FACTOR: lambda: admin.create_topic("other", replication_factor=3),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: lambda: admin.delete_topic("nothing"),
    }
    for code, attempt in refused.items():
        with pytest.raises(KafkaError, match=rf"\w+ .*\({code.name}\)$") as caught:
            attempt()
        assert caught.value.code is code
    assert [topic.name for topic in admin.topics()] == ["orders"]


def test_the_first_server_that_answers_is_used(broker: Broker) -> None:
    with Admin(f"127.0.0.1:1, {broker.bootstrap_servers}") as admin:
        assert admin.topics() == []


def test_all_servers_down_names_each() -> None:
    with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:1: .*; cannot connect to 127\.0\.0\.1:2: "):
        Admin("127.0.0.1:1,127.0.0.1:2")


def test_bootstrap_servers_are_read_as_kafka_writes_them() -> None:
    assert parse_bootstrap_servers("a:1, [::1]:9092") == [("a", 1), ("::1", 9092)]
    for wrong in ("", "a", "a:", ":1", "a:b", "a:0", "a:65536", "a:1,,b:2"):
        with pytest.raises(UsageError, match="write HOST:PORT"):
            parse_bootstrap_servers(wrong)
    with pytest.raises(UsageError, match=r"'SSL://a:1' is no server: write a:1, and set security\.protocol=SSL"):
        parse_bootstrap_servers("SSL://a:1")


def test_plain_text_may_be_said_and_tls_is_not_taken_for_it(broker: Broker) -> None:
    with Admin(broker.bootstrap_servers, security_protocol="plaintext") as admin:
        assert admin.cluster().brokers
    with pytest.raises(TlsError, match="speaks plain text, and this client speaks TLS"):
        Admin(broker.bootstrap_servers, security_protocol="SSL")


def test_a_server_that_hangs_is_not_waited_for_while_another_answers(broker: Broker) -> None:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{broker.bootstrap_servers}"
        began = time.monotonic()
        with Admin(servers, timeout=60) as admin:
            assert admin.cluster().brokers
        assert time.monotonic() - began < 30


def test_a_broker_that_restarts_is_reached_again(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as first:
        servers = first.bootstrap_servers
        admin = Admin(f"127.0.0.1:1,{servers}")
        admin.create_topic("orders", 1)
    with pytest.raises(KafkaConnectionError, match="cannot connect to"):
        admin.topics()
    with Broker(data=tmp_path, listen=servers):
        assert [topic.name for topic in admin.topics() if not topic.is_internal] == ["orders"]
        assert admin.committed("nobody") == {}
        admin.close()


def test_a_connection_that_failed_is_replaced(admin: Admin) -> None:
    admin._bootstrap.close()
    assert admin.topics() == []
    assert admin.list_groups().groups == []


def test_a_closed_one_says_so(broker: Broker) -> None:
    admin = Admin(broker.bootstrap_servers)
    admin.close()
    admin.close()
    for call in (admin.topics, admin.list_groups, lambda: admin.create_topic("orders")):
        with pytest.raises(UsageError, match="this Admin is closed"):
            call()


def test_a_timeout_is_a_time(broker: Broker) -> None:
    for wrong in (0, -1, None, "5", float("nan")):
        with pytest.raises(UsageError, match="timeout is"):
            Admin(broker.bootstrap_servers, timeout=wrong)  # type: ignore[arg-type]
    for name, long in (("first", float("inf")), ("second", 1e12)):
        with Admin(broker.bootstrap_servers, timeout=long) as admin:
            admin.create_topic(name)


class TestUsers:
    def test_a_user_from_its_beginning_to_its_end(self, admin: Admin, broker: Broker) -> None:
        assert admin.users() == []
        admin.set_password("alice", "a secret", mechanism="SCRAM-SHA-512")
        admin.set_password("alice", "another secret", iterations=8192)
        admin.set_password("bob", "b")
        assert admin.users() == [
            ("alice", {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096}),
            ("bob", {"SCRAM-SHA-256": 4096}),
        ]
        found = broker.call(lambda server: server.security.state.credentials("alice", "SCRAM-SHA-256"))
        assert found is not None
        salted = salted_password("SCRAM-SHA-256", b"another secret", found.salt, 8192)
        assert found == credential("SCRAM-SHA-256", salted, found.salt, 8192)
        admin.remove_user("alice", "SCRAM-SHA-256")
        assert admin.users()[0] == ("alice", {"SCRAM-SHA-512": 4096})
        admin.remove_user("bob")
        admin.remove_user("alice")
        assert admin.users() == []

    def test_all_credentials_of_a_user_go(self, admin: Admin) -> None:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            admin.set_password("alice", "x", mechanism=mechanism)
        admin.remove_user("alice")
        assert admin.users() == []

    def test_what_is_refused(self, admin: Admin) -> None:
        with pytest.raises(KafkaError, match="no credential") as refused:
            admin.remove_user("nobody")
        assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
        with pytest.raises(KafkaError, match="Too few iterations") as refused:
            admin.set_password("alice", "x", iterations=1)
        assert refused.value.code is ErrorCode.UNACCEPTABLE_CREDENTIAL
        with pytest.raises(UsageError, match="write SCRAM-SHA-256 or SCRAM-SHA-512"):
            admin.set_password("alice", "x", mechanism="PLAIN")
