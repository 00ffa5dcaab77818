"""Stock clients on a secured broker: every mechanism over TLS, mutual TLS, a hand-over in a group, and refusals."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from equipoise.broker import Broker
from tests.broker.conftest import Start
from tests.broker.secured import PASSWORD, authority, context, stranger, tls_settings

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
QUICK = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def secured(start: Start, tmp_path: Path) -> Broker:
    return start(tls_settings(tmp_path, "SASL_SSL") | QUICK)


def confluent(broker: Broker, place: Path, mechanism: str, password: str = PASSWORD) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place / "ca.pem"),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return settings | {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        }
    return settings | {"sasl.username": "alice", "sasl.password": password}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_produces_and_a_group_hands_over(secured: Broker, tmp_path: Path, mechanism: str) -> None:
    settings = confluent(secured, tmp_path, mechanism)
    producer = confluent_kafka.Producer(settings)
    for number in range(1000):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(60) == 0
    of_group = settings | {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    first = confluent_kafka.Consumer(of_group)
    first.subscribe(["orders"])
    read = [record for record in first.consume(500, 60) if not record.error()]
    first.commit(asynchronous=False)
    first.close()
    second = confluent_kafka.Consumer(of_group)
    second.subscribe(["orders"])
    deadline = time.monotonic() + 60
    while len(read) < 1000 and time.monotonic() < deadline:
        read += [record for record in second.consume(500, 1) if not record.error()]
    second.close()
    assert [record.value() for record in read] == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_kafka_python_and_aiokafka_produce(secured: Broker, tmp_path: Path, mechanism: str) -> None:
    common = {
        "bootstrap_servers": secured.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    producer = KafkaProducer(**common, ssl_cafile=str(tmp_path / "ca.pem"))
    producer.send("orders", b"one").get(60)
    producer.close()

    async def produce() -> None:
        async with AIOKafkaProducer(**common, ssl_context=context()) as other:
            await other.send_and_wait("orders", b"two")

    asyncio.run(produce())
    assert secured.topics["orders"].end_offsets == [2]


def test_mutual_tls(start: Start, tmp_path: Path) -> None:
    broker = start(tls_settings(tmp_path, "SSL", ssl_client_auth="required"))
    leaf = authority().issue_cert("app", common_name="app")
    leaf.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.location": str(tmp_path / "client.pem"),
            "ssl.key.location": str(tmp_path / "client.pem"),
        }
    )
    producer.produce("orders", b"one")
    assert producer.flush(60) == 0


def first_error(settings: dict[str, object]) -> str:
    errors: list[str] = []
    producer = confluent_kafka.Producer(settings | {"error_cb": lambda error: errors.append(str(error))})
    deadline = time.monotonic() + 60
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    return errors[0]


def test_a_wrong_password_is_told(secured: Broker, tmp_path: Path) -> None:
    said = first_error(confluent(secured, tmp_path, "PLAIN", "wrong"))
    assert "Authentication failed: Invalid username or password" in said
    said = first_error(confluent(secured, tmp_path, "SCRAM-SHA-256", "wrong"))
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in said


def test_an_unknown_authority_is_refused_by_the_client(secured: Broker, tmp_path: Path) -> None:
    stranger().cert_pem.write_to_path(tmp_path / "other.pem")
    settings = confluent(secured, tmp_path, "PLAIN") | {"ssl.ca.location": str(tmp_path / "other.pem")}
    assert "certificate" in first_error(settings)


def test_a_wrong_host_name_is_refused_by_the_client(start: Start, tmp_path: Path) -> None:
    settings = tls_settings(tmp_path)
    authority().issue_cert("elsewhere.example.com").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "broker.pem"
    )
    broker = start(settings)
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port))) as plain, pytest.raises(ssl.SSLCertVerificationError):
        context().wrap_socket(plain, server_hostname=host)
