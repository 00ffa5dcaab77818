"""`equipoise serve` with TLS and users, as a process: clients log in, SIGHUP takes new files into use."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from equipoise.client import Consumer, Producer
from equipoise.client.admin import Admin
from equipoise.client.net.errors import AuthenticationError
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.secured import authority, context
from tests.crash.warm import WarmBroker

Settings = dict[str, object]


def write_users(path: Path, *lines: str) -> None:
    path.write_text("".join(line + "\n" for line in lines))
    path.chmod(0o600)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    write_users(tmp_path / "users", "alice:plain:alice-secret")
    return tmp_path / "users"


@pytest.fixture
def served(tmp_path: Path, users: Path) -> Iterator[WarmBroker]:
    first = tmp_path / "first"
    first.write_text("SCRAM-SHA-512=[name=admin,password=first-secret]\n")
    arguments = ["--tls", "--users", str(users), "--add-scram", f"@{first}"]
    quick = {"group.initial.rebalance.delay.ms": 0}
    with WarmBroker(tmp_path / "data", tmp_path / "log", quick, arguments) as broker:
        yield broker
        said = broker.log.read_text()
        assert "Traceback" not in said
        assert "-secret" not in said


def client_settings(served: WarmBroker, user: str, password: str, mechanism: str) -> Settings:
    return {
        "bootstrap.servers": served.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(served.data / "tls" / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def admin(served: WarmBroker, user: str, password: str, mechanism: str) -> Admin:
    settings = client_settings(served, user, password, mechanism)
    names = {name.replace(".", "_"): value for name, value in settings.items() if name != "bootstrap.servers"}
    return Admin(served.address, **names)  # type: ignore[arg-type]


def round_trip(served: WarmBroker, user: str, password: str, mechanism: str) -> None:
    """Our client and confluent-kafka write a record each, and read both."""
    settings = client_settings(served, user, password, mechanism)
    topic = f"{user}-{mechanism}"
    with admin(served, user, password, mechanism) as one:
        one.create_topic(topic, partitions=1)
    with Producer(settings) as producer:
        producer.send(topic, b"ours")
    theirs = confluent_kafka.Producer(settings)
    theirs.produce(topic, b"theirs")
    assert theirs.flush(60) == 0
    of_group = settings | {"group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer(of_group) as consumer:
        consumer.subscribe(topic)
        assert _read(lambda: [record.value for record in consumer.poll(1)]) == [b"ours", b"theirs"]
    other = confluent_kafka.Consumer(settings | {"group.id": topic + "2", "auto.offset.reset": "earliest"})
    other.subscribe([topic])
    found = _read(lambda: [record.value() for record in other.consume(2, 1) if not record.error()])
    other.close()
    assert found == [b"ours", b"theirs"]


def _read(some: Callable[[], list[bytes | None]]) -> list[bytes | None]:
    read: list[bytes | None] = []

    def has_both() -> bool:
        read.extend(some())
        return len(read) >= 2

    eventually(has_both, "both records are read")
    return read


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_of_the_file_logs_in(served: WarmBroker, mechanism: str) -> None:
    round_trip(served, "alice", "alice-secret", mechanism)
    with pytest.raises(AuthenticationError):
        admin(served, "alice", "guess-secret", mechanism)


def test_the_first_user_logs_in_and_makes_another(served: WarmBroker) -> None:
    """By --add-scram, and by AlterUserScramCredentials."""
    round_trip(served, "admin", "first-secret", "SCRAM-SHA-512")
    with admin(served, "admin", "first-secret", "SCRAM-SHA-512") as first:
        first.set_password("bob", "bob-secret", mechanism="SCRAM-SHA-256", iterations=8192)
    round_trip(served, "bob", "bob-secret", "SCRAM-SHA-256")
    for password, mechanism in (("guess-secret", "SCRAM-SHA-256"), ("bob-secret", "SCRAM-SHA-512")):
        with pytest.raises(AuthenticationError):
            admin(served, "bob", password, mechanism)
    with admin(served, "admin", "first-secret", "SCRAM-SHA-512") as first:
        first.remove_user("bob")
    with pytest.raises(AuthenticationError):
        admin(served, "bob", "bob-secret", "SCRAM-SHA-256")


def number(address: str) -> str:
    """The serial number of the certificate that new connections see."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as plain,
        context().wrap_socket(plain, server_hostname=host) as tls,
    ):
        found = tls.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_sighup_takes_certificates_and_users_into_use(tmp_path: Path, users: Path) -> None:
    """A pair that does not fit together, and an empty file of users, change nothing."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    old, new = authority().issue_cert("127.0.0.1"), authority().issue_cert("127.0.0.1")
    old.cert_chain_pems[0].write_to_path(chain)
    old.private_key_pem.write_to_path(key)
    settings = {"ssl.keystore.location": "", "ssl.certificate.location": chain, "ssl.key.location": key}
    served = WarmBroker(tmp_path / "data", tmp_path / "log", settings, ["--tls", "--users", str(users)])

    def is_let_in(password: str) -> bool:
        with RawClient(served.address, tls=context()) as client:
            answer = client.authenticate("PLAIN", f"\0alice\0{password}".encode())
        return bool(answer.error_code == ErrorCode.NONE)

    with served:
        before = number(served.address)

        def hang_up(says: str) -> None:
            told = served.log.read_text().count(says)
            os.kill(served.pid, signal.SIGHUP)
            eventually(lambda: served.log.read_text().count(says) > told, f"the log says {says}")

        new.cert_chain_pems[0].write_to_path(chain)
        users.write_text("")
        hang_up("the certificates stay as they were")
        eventually(lambda: "the users stay as they were" in served.log.read_text(), "the log says so of both")
        assert number(served.address) == before
        assert is_let_in("alice-secret")
        new.private_key_pem.write_to_path(key)
        write_users(users, "alice:plain:new-secret")
        hang_up("new connections get the certificates of now")
        assert number(served.address) != before
        assert is_let_in("new-secret")
        assert not is_let_in("alice-secret")
        assert "-secret" not in served.log.read_text()
