"""Real clients on our broker behind TLS and SASL: each client by each way, as a group that hands partitions over. Then
what they see when they are not let in."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from equipoise.client import Admin
from proving.members.fleet import Fleet, Members, places_of
from proving.members.view import committed
from proving.secured_broker import ACLS, OPEN, SecuredEquipoise
from tests.proving.needed import needed
from tests.proving.secured_failures import OWN_ASSIGNOR, fail, make_topics

CLIENTS = ("equipoise", "confluent-kafka", "kafka-python", "aiokafka", "kafkajs", "kcat")
WAYS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "TLS", "MUTUAL", "PLAIN", "OAUTHBEARER")
PARTITIONS, RECORDS = 2, 20
AT_A_TIME = 8

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
    settings = {"group": topic, "assignor": OWN_ASSIGNOR.get(client, "range"), "security": broker.security(way)}
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
        members.close("first")
        members.wait_settled(places)
        members.produce("next producer", client, places, RECORDS)
        members.wait_read({(*place, offset) for place in places for offset in range(RECORDS, 2 * RECORDS)})
    assert committed(broker.bootstrap_servers, topic) == dict.fromkeys(places, 2 * RECORDS)
    assert not members.read_again()


@pytest.fixture(scope="module")
def played(broker: SecuredEquipoise, fleet: Fleet) -> Iterator[dict[Cell, Future[None]]]:
    """All cells, some side by side: members wait much and work little."""
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        yield {(client, way): threads.submit(play, broker, fleet, client, way) for way in WAYS for client in CLIENTS}


def is_refused(client: str, way: str) -> bool:
    """librdkafka before 2.6.1 repeats its nonce in the last message of SCRAM. Kafka 4.0 and later refuse that."""
    if client != "kcat" or not way.startswith("SCRAM"):
        return False
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    return found is not None and tuple(map(int, found.groups())) < (2, 6, 1)


@pytest.mark.kafka
@pytest.mark.parametrize("way", WAYS)
def test_a_group_of_java_hands_over(broker: SecuredEquipoise, fleet: Fleet, way: str) -> None:
    needed(lambda: play(broker, fleet, "java", way))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_hands_over(played: dict[Cell, Future[None]], client: str, way: str) -> None:
    needed(played[client, way].result)


# -- failures

# kafka-python is not here: it tries for half a minute, and then says that it could not connect, whatever the reason.
SAID = {
    "wrong password of PLAIN": {
        "equipoise": r"AuthenticationError\(.*refuses the login with PLAIN: Authentication failed: Invalid username",
        "confluent-kafka": r"_AUTHENTICATION: .*Authentication failed: Invalid username or password",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"KafkaJSSASLAuthenticationError: .*Authentication failed: Invalid username or password",
        "kcat": r"Authentication failure: .*Authentication failed: Invalid username or password",
    },
    "wrong password of SCRAM": {
        "equipoise": r"AuthenticationError\(.*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "confluent-kafka": r"_AUTHENTICATION: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"KafkaJSSASLAuthenticationError: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
        "kcat": r"Authentication failure: .*invalid credentials with SASL mechanism SCRAM-SHA-512",
    },
    "expired certificate": {
        "equipoise": r"TlsError\(.*the broker's certificate has expired",
        "confluent-kafka": r"_SSL: .*certificate verify failed",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"certificate has expired",
        "kcat": r"SSL error: .*certificate verify failed",
    },
    "wrong host name": {
        "equipoise": r"TlsError\(.*certificate is not for 127.0.0.1, it is for elsewhere.example.org",
        "confluent-kafka": r"_SSL: .*certificate verify failed",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kafkajs": r"IP: 127.0.0.1 is not in the cert's list",
        "kcat": r"SSL error: .*certificate verify failed",
    },
    "expired certificate of the client": {
        "equipoise": r"TlsError\(.*certificate",
        "confluent-kafka": r"_TRANSPORT: .*alert certificate expired",
        "aiokafka": r"KafkaConnectionError\(.*Unable to bootstrap",
        "kcat": r"Broker transport failure: .*alert certificate expired",
    },
    "topic without an ACL": {
        "equipoise": r"TOPIC_AUTHORIZATION_FAILED",
        "confluent-kafka": r"TOPIC_AUTHORIZATION_FAILED: .*closed",
        "aiokafka": r"TopicAuthorizationFailedError\('closed'\)",
        "kafkajs": r"KafkaJSProtocolError: Not authorized to access topics",
    },
    "group without an ACL": {
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
