"""Real clients on our broker behind TLS and SASL: each client by each way, as a group that hands partitions over. Then
what they see when they are not let in."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import pytest

from equipoise.client import Admin
from proving.members.events import Place
from proving.members.fleet import Fleet, Members, places_of
from proving.members.security import Security
from proving.members.view import committed
from proving.secured_broker import ACLS, ENDING_MS, OPEN, REAUTHENTICATION_MS, SecuredEquipoise
from tests.proving.needed import needed
from tests.proving.secured_failures import OWN_ASSIGNOR, fail, make_topics

CLIENTS = ("equipoise", "confluent-kafka", "kafka-python", "aiokafka", "kafkajs", "franz-go", "kcat")
WAYS = ("RENEWED", "SCRAM-SHA-512", "SCRAM-SHA-256", "TLS", "MUTUAL", "PLAIN", "OAUTHBEARER")
PARTITIONS, RECORDS = 2, 250
AT_A_TIME = 8
LIVES, PER_LIFE = 3, 5  # of sessions while a group goes on; rounds of records in each
ENDING_LIVES = 2  # so one ends in between, at least
# aiokafka renews no session. Its connections are closed when one has ended, and with them goes a LeaveGroup at times.
GIVEN_UP_MS = 10_000

Cell = tuple[str, str]


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredEquipoise]:
    with SecuredEquipoise(ACLS) as running:
        make_topics(running)
        yield running


@pytest.fixture(scope="module")
def fleet(broker: SecuredEquipoise, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(broker.bootstrap_servers, tmp_path_factory.mktemp("members") / "log") as running:
        yield running


def wait_for_trouble(members: Members, name: str, words: str) -> None:
    members.wait_until(
        f"{name} is told {words}", lambda: any(words in one.error for one in members.told(name, "trouble", "error"))
    )


def play(broker: SecuredEquipoise, fleet: Fleet, client: str, way: str) -> None:
    """Two members share the topic's partitions; the first leaves, and the second reads on where it had committed."""
    topic = f"{OPEN}-{client}-{way}"
    places = places_of(topic, PARTITIONS)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    security = security_of(broker, client, way)
    settings = {"group": topic, "assignor": OWN_ASSIGNOR.get(client, "range"), "security": security}
    if (client, way) == ("aiokafka", "RENEWED"):
        settings["session_ms"] = GIVEN_UP_MS
    with Members.of(fleet, topic, **settings) as members:
        members.join("first", client)
        if is_refused(client, way):
            wait_for_trouble(members, "first", "invalid credentials")
            return
        members.wait_settled(places)
        members.join("second", client)
        members.wait_settled(places)
        members.produce("producer", client, places, RECORDS)
        rows = {(*place, offset) for place in places for offset in range(RECORDS)}
        members.wait_read(rows)
        written = RECORDS + (outlive(broker, members, client, places) if way == "RENEWED" else 0)
        members.close("first")
        members.wait_settled(places)
        members.produce("next producer", client, places, RECORDS)
        members.wait_read({(*place, offset) for place in places for offset in range(written + RECORDS)})
    assert committed(broker.bootstrap_servers, topic) == dict.fromkeys(places, written + RECORDS)
    assert not members.read_again()


def security_of(broker: SecuredEquipoise, client: str, way: str) -> Security:
    known = broker.security("ENDING" if way == "RENEWED" and not renews(client) else way)
    if known.mechanism is not None and way == "RENEWED" and is_refused(client, known.mechanism):
        return dataclasses.replace(known, mechanism="PLAIN")
    return known


def outlive(broker: SecuredEquipoise, members: Members, client: str, places: set[Place]) -> int:
    """A client that renews outlives several sessions; another is cut off once at least, and goes on by itself."""
    if renews(client):
        return outlive_sessions(members, places, LIVES, REAUTHENTICATION_MS)
    written = outlive_sessions(members, places, ENDING_LIVES, ENDING_MS)
    members.wait_until("the broker ends a session", lambda: "has not authenticated again" in broker.log.read_text())
    if client == "kcat":
        for name in members.names:
            wait_for_trouble(members, name, "Disconnected")
    return written


def outlive_sessions(members: Members, places: set[Place], lives: int, life_ms: int) -> int:
    """Records flow while sessions end, one after the other: each is read, and the group has nothing to do."""
    since, began, rounds = members.now, time.monotonic(), lives * PER_LIFE
    for number in range(1, rounds + 1):
        members.fleet.produce(places, 1)
        members.wait_read({(*place, RECORDS + number - 1) for place in places})
        next_at = began + number * life_ms / 1000 / PER_LIFE
        members.wait_until("it is time for more", lambda next_at=next_at: time.monotonic() >= next_at)  # type: ignore[misc]
    assert not any(members.rebalances(name, since) for name in members.names)
    return rounds


@pytest.fixture(scope="module")
def played(broker: SecuredEquipoise, fleet: Fleet) -> Iterator[dict[Cell, Future[None]]]:
    """All cells, some side by side: members wait much and work little."""
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        yield {(client, way): threads.submit(play, broker, fleet, client, way) for way in WAYS for client in CLIENTS}


def renews(client: str) -> bool:
    """Whether it authenticates again on a connection (KIP-368): librdkafka does from 2.2.0 on."""
    return client != "aiokafka" and (client != "kcat" or librdkafka_of_kcat() >= (2, 2, 0))


def is_refused(client: str, way: str) -> bool:
    """librdkafka before 2.6.1 repeats its nonce in the last message of SCRAM. Kafka 4.0 and later refuse that."""
    return client == "kcat" and way.startswith("SCRAM") and librdkafka_of_kcat() < (2, 6, 1)


@cache
def librdkafka_of_kcat() -> tuple[int, ...]:
    """Its version; without kcat the newest there can be."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    return (sys.maxsize,) if found is None else tuple(map(int, found.groups()))


@pytest.fixture(scope="module")
def played_by_java(broker: SecuredEquipoise, fleet: Fleet) -> Iterator[dict[str, Future[None]]]:
    with ThreadPoolExecutor(len(WAYS)) as threads:
        yield {way: threads.submit(play, broker, fleet, "java", way) for way in WAYS}


@pytest.mark.kafka
@pytest.mark.parametrize("way", WAYS)
def test_a_group_of_java_hands_over(played_by_java: dict[str, Future[None]], way: str) -> None:
    needed(played_by_java[way].result)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_hands_over(played: dict[Cell, Future[None]], client: str, way: str) -> None:
    needed(played[client, way].result)


# -- failures

# kafka-python is not here: it tries for half a minute, and then says that it could not connect, whatever the reason.
# The thread of the handshake and that of the connection both report it, in any order, under a code each.
_REFUSED_BY_LIBRDKAFKA = r"_(SSL|TRANSPORT): .*certificate verify failed"
SAID = {
    "wrong password of PLAIN": {
        "franz-go": r"SASL_AUTHENTICATION_FAILED: .*Authentication failed: Invalid username or password",
        "equipoise": r"AuthenticationError\(.*refuses the login with PLAIN: Authentication failed: Invalid username",
        "confluent-kafka": r"_AUTHENTICATION: .*Authentication failed: Invalid username or password",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"KafkaJSSASLAuthenticationError: .*Authentication failed: Invalid username or password",
        "kcat": r"Authentication failure: .*Authentication failed: Invalid username or password",
    },
    "wrong password of SCRAM": {
        "franz-go": r"SASL_AUTHENTICATION_FAILED: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "equipoise": r"AuthenticationError\(.*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "confluent-kafka": r"_AUTHENTICATION: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"KafkaJSSASLAuthenticationError: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "kcat": r"Authentication failure: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
    },
    "expired certificate": {
        "franz-go": r"failed to verify certificate: x509: certificate has expired",
        "equipoise": r"TlsError\(.*the broker's certificate has expired",
        "confluent-kafka": _REFUSED_BY_LIBRDKAFKA,
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"certificate has expired",
        "kcat": r"SSL error: .*certificate verify failed",
    },
    "wrong host name": {
        "franz-go": r"failed to verify certificate: x509: cannot validate certificate for 127.0.0.1",
        "equipoise": r"TlsError\(.*certificate is not for 127.0.0.1, it is for elsewhere.example.org",
        "confluent-kafka": _REFUSED_BY_LIBRDKAFKA,
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"IP: 127.0.0.1 is not in the cert's list",
        "kcat": r"SSL error: .*certificate verify failed",
    },
    "expired certificate of the client": {
        "franz-go": r"remote error: tls: expired certificate",
        "equipoise": r"TlsError\(.*certificate",
        "confluent-kafka": r"_TRANSPORT: .*alert certificate expired",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kcat": r"Broker transport failure: .*alert certificate expired",
    },
    "topic without an ACL": {
        "franz-go": r"TOPIC_AUTHORIZATION_FAILED",
        "equipoise": r"TOPIC_AUTHORIZATION_FAILED",
        "confluent-kafka": r"TOPIC_AUTHORIZATION_FAILED: .*closed",
        "aiokafka": r"TopicAuthorizationFailedError\('closed'\)",
        "kafkajs": r"KafkaJSProtocolError: Not authorized to access topics",
    },
    "group without an ACL": {
        "franz-go": r"GROUP_AUTHORIZATION_FAILED",
        "equipoise": r"GROUP_AUTHORIZATION_FAILED",
        "confluent-kafka": r"GROUP_AUTHORIZATION_FAILED",
        "aiokafka": r"GroupAuthorizationFailedError",
        "kafka-python": r"GroupAuthorizationFailedError",
        "kafkajs": r"KafkaJSGroupCoordinatorNotFound",
    },
}
FAILING = [(client, name) for name, said in SAID.items() for client in said]


@pytest.fixture(scope="module")
def failed(broker: SecuredEquipoise, fleet: Fleet) -> Iterator[dict[Cell, Future[str]]]:
    with ThreadPoolExecutor(len(FAILING)) as threads:
        yield {(client, name): threads.submit(fail, broker, fleet, client, name) for client, name in FAILING}


@pytest.mark.parametrize(("client", "failure"), FAILING)
def test_who_is_not_let_in_learns_why(failed: dict[Cell, Future[str]], client: str, failure: str) -> None:
    said = needed(failed[client, failure].result)
    assert re.search(SAID[failure][client], said), said
    assert "a-wrong-one" not in said
