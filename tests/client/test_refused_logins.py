"""A refused login is final for every client: it is raised at once, and tried once only, because accounts get locked."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from equipoise import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.errors import AuthenticationError, KafkaError, TlsError
from equipoise.spark.executor.leaders import Leaders
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from tests.client.secured import MECHANISMS, SecuredBroker

LONG = 60_000


@pytest.fixture
def broker() -> Iterator[SecuredBroker]:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        yield broker
    assert broker.principals == []


def settings(broker: SecuredBroker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "wrong-secret",
        **more,
    }


def logins(broker: SecuredBroker) -> int:
    return sum(connection.count(17) for connection in broker.log)


def test_poll_and_commit_raise_it_again_and_again(broker: SecuredBroker) -> None:
    began = time.monotonic()
    with Consumer(settings(broker, **{"group.id": "g"})) as consumer:
        consumer.subscribe(["orders"])
        for _ in range(3):
            with pytest.raises(AuthenticationError, match="refuses the login"):
                consumer.poll(30)
        with pytest.raises(KafkaError):
            consumer.commit({TopicPartition("orders", 0): 1})
    assert logins(broker) == 1
    assert time.monotonic() - began < 25  # poll() had 30 s, and close() too


def test_calls_that_wait_for_an_answer_raise_it(broker: SecuredBroker) -> None:
    with Consumer(settings(broker, **{"group.id": "g"})) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(AuthenticationError):
            consumer.end_offsets(timeout=30)
        with pytest.raises(AuthenticationError):
            consumer.committed(timeout=30)
        with pytest.raises(AuthenticationError):
            consumer.commit({TopicPartition("orders", 0): 1})
    assert logins(broker) == 1


async def _poll(broker: SecuredBroker) -> None:
    async with AsyncConsumer(settings(broker, **{"group.id": "g"})) as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(AuthenticationError, match="refuses the login"):
            await consumer.poll(30)
        with pytest.raises(KafkaError):
            await consumer.commit({TopicPartition("orders", 0): 1})


def test_the_async_consumer_raises_it(broker: SecuredBroker) -> None:
    import asyncio

    asyncio.run(_poll(broker))
    assert logins(broker) == 1


def test_the_producer_raises_it(broker: SecuredBroker) -> None:
    with Producer(settings(broker, **{"max.block.ms": LONG})) as producer:
        for _ in range(2):
            with pytest.raises(AuthenticationError):
                producer.send("orders", b"value")
    assert logins(broker) == 1


def test_the_admin_raises_it_from_its_constructor(broker: SecuredBroker) -> None:
    given = {name.replace(".", "_"): value for name, value in settings(broker).items()}
    servers = str(given.pop("bootstrap_servers"))
    with pytest.raises(AuthenticationError):
        Admin(f"{servers},{servers.replace('127.0.0.1', 'localhost')}", **given)  # type: ignore[arg-type]
    assert logins(broker) == 1


def test_executors_raise_it(broker: SecuredBroker) -> None:
    leaders = Leaders(ConsumerConfig.parse(settings(broker)))
    with pytest.raises(AuthenticationError):
        leaders.ask_anyone(MetadataRequest(topics=[]), MetadataResponse)
    assert logins(broker) == 1


def test_plain_text_on_a_tls_port_is_final_too(broker: SecuredBroker) -> None:
    with Consumer(settings(broker, **{"group.id": "g", "security.protocol": "SASL_SSL"})) as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(TlsError, match="speaks plain text, and this client speaks TLS"):
            consumer.poll(30)
