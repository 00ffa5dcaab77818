"""Our clients on Apache Kafka behind TLS and SASL: each mechanism, each failure, sessions that end under load."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from equipoise.client.net.connection import AsyncConnection
from equipoise.errors import AuthenticationError, TlsError
from equipoise.process_guard import GuardedProcess
from proving.brokers import QUICK_JVM
from proving.fetched import jars, java
from proving.secured_kafka import MECHANISMS, PASSWORD, USER, SecuredKafka
from proving.tools import MAINS

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    with SecuredKafka() as kafka:
        yield kafka


def admin(settings: dict[str, object]) -> Admin:
    given = {name.replace(".", "_"): value for name, value in settings.items()}
    return Admin(str(given.pop("bootstrap_servers")), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["TLS", "MUTUAL", *MECHANISMS])
def test_each_way_writes_reads_and_commits(secured: SecuredKafka, way: str) -> None:
    settings, topic = secured.client(way), f"by-{way.lower()}"
    with admin(settings) as by_hand:
        by_hand.create_topic(topic, 2)
    with Producer(settings) as producer:
        for number in range(300):
            producer.send(topic, str(number).encode())
    with Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        assert sorted(read(consumer, 300)) == sorted(range(300))
        consumer.commit()
        assert sum(at.offset for at in consumer.committed().values()) == 300


def read(consumer: Consumer, wanted: int) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline:
        found += [int(record.value or b"") for record in consumer.poll(1)]
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(secured: SecuredKafka, mechanism: str) -> None:
    settings = secured.client(mechanism) | {"sasl.password": "wrong-secret"}
    with pytest.raises(AuthenticationError, match=f"refuses the login with {mechanism}: Authentication failed"):
        admin(settings)
    with Consumer(settings | {"group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(AuthenticationError):
            consumer.poll(30)


@pytest.mark.parametrize(
    ("way", "change", "why"),
    [
        ("TLS", {"ssl.ca.location": "other-ca.pem"}, "authority that this client does not trust"),
        ("TLS", {"bootstrap.servers": "localhost"}, "is not for localhost, it is for 127.0.0.1"),
        ("EXPIRED", {}, "has expired"),
        ("TLS", {"security.protocol": "PLAINTEXT"}, "speaks TLS, and this client speaks plain text"),
        ("PLAINTEXT", {}, "speaks plain text, and this client speaks TLS"),
        ("MUTUAL", {"ssl.certificate.location": "", "ssl.key.location": ""}, "client certificate"),
    ],
)
def test_what_tls_refuses(secured: SecuredKafka, way: str, change: dict[str, str], why: str) -> None:
    settings = secured.client("TLS" if way == "PLAINTEXT" else way) | change
    if "ssl.ca.location" in change:
        settings["ssl.ca.location"] = str(secured.data / change["ssl.ca.location"])
    if "bootstrap.servers" in change:
        settings["bootstrap.servers"] = f"localhost:{secured.ports[way]}"
    if way == "PLAINTEXT":
        settings["bootstrap.servers"] = secured.bootstrap_servers
    with pytest.raises(TlsError, match=why):
        admin(settings)


def test_a_mechanism_that_is_not_offered_and_a_port_without_sasl(secured: SecuredKafka) -> None:
    plain = secured.client("PLAIN") | {"bootstrap.servers": secured.address_of("TLS")}
    with pytest.raises(AuthenticationError, match="expects no SASL on this port"):
        admin(plain)


def test_sessions_that_end_under_load_lose_nothing(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session lives for four seconds. Over twelve seconds every record arrives, once, on connections that stay."""
    renewals: list[str] = []
    renew = AsyncConnection._renew

    async def counted(connection: AsyncConnection) -> None:
        await renew(connection)
        renewals.append(connection.address)

    monkeypatch.setattr(AsyncConnection, "_renew", counted)
    settings = secured.client("RENEWED")
    with admin(settings) as by_hand:
        by_hand.create_topic("renewed", 3)
    sent, until = 0, time.monotonic() + 12
    pause = threading.Event()
    with (
        Producer(settings) as producer,
        Consumer(settings | {"group.id": "renewed", "auto.offset.reset": "earliest"}) as consumer,
    ):
        consumer.subscribe(["renewed"])
        found: list[int] = []
        while time.monotonic() < until:
            for _ in range(20):
                producer.send("renewed", str(sent).encode())
                sent += 1
            found += [int(record.value or b"") for record in consumer.poll(0.02)]
            pause.wait(0.01)
        producer.flush()
        found += read(consumer, sent - len(found))
        consumer.commit()
    assert sorted(found) == list(range(sent))
    assert len(renewals) >= 6  # of producing, fetching, heartbeats


async def _read_by_hand(settings: dict[str, object], topic: str) -> list[int]:
    async with AsyncConsumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[int] = []
        while len(found) < 50:
            found += [int(record.value or b"") for record in await consumer.poll(1)]
        return found


@pytest.mark.timeout(60)
def test_the_async_consumer(secured: SecuredKafka) -> None:
    settings = secured.client("SCRAM-SHA-256")
    with admin(settings) as by_hand:
        by_hand.create_topic("by-async", 1)
    with Producer(settings) as producer:
        for number in range(50):
            producer.send("by-async", str(number).encode())
    assert asyncio.run(_read_by_hand(settings, "by-async")) == list(range(50))


def java_member(secured: SecuredKafka, topic: str, directory: Path) -> subprocess.Popen[bytes]:
    """Kafka's console consumer, in the group that has the topic's name."""
    config = directory / "java.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.ca_file,
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [
        *(java(), *QUICK_JVM, "-cp", f"{jars('kafka')}/*", MAINS["kafka-console-consumer"]),
        *("--bootstrap-server", secured.address_of("RENEWED"), "--topic", topic, "--group", topic),
        *("--consumer.config", str(config)),
    ]
    return GuardedProcess(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


@pytest.mark.timeout(120)
def test_a_group_with_a_java_member_hands_partitions_over(secured: SecuredKafka, tmp_path: Path) -> None:
    settings, topic = secured.client("RENEWED"), "mixed"
    with admin(settings) as by_hand:
        by_hand.create_topic(topic, 4)
    with Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        while len(consumer.assignment()) != 4:
            consumer.poll(0.2)
        member = java_member(secured, topic, tmp_path)
        try:
            while len(consumer.assignment()) != 2:
                consumer.poll(0.2)
        finally:
            member.terminate()
            member.communicate(timeout=60)
        while len(consumer.assignment()) != 4:
            consumer.poll(0.2)
