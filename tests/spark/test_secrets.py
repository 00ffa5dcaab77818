"""Secrets among a query's options: nothing shows them, neither Spark nor we."""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.spark.options import SourceOptions
from equipoise.spark.sink.options import SinkOptions
from tests.client.writing import produce
from tests.spark.secret_driver import QUERY

ROOT = Path(__file__).parents[2]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECRETS = {
    "kafka.sasl.password": "huntedsecretword-password",
    "kafka.sasl.jaas.config": f'{PLAIN} username="alice" password="huntedsecretword-jaas";',
    "kafka.ssl.key.pem": "-----BEGIN PRIVATE KEY-----\nhuntedsecretword+pem\n-----END PRIVATE KEY-----",
    "kafka.ssl.key.password": "huntedsecretword-key-password",
    "kafka.ssl.keystore.password": "huntedsecretword-keystore",
    "kafka.ssl.truststore.password": "huntedsecretword-truststore",
    "kafka.sasl.oauthbearer.client.secret": "huntedsecretword-client-secret",
    "kafka.sasl.oauthbearer.config": "huntedsecretword-oauth-config",
}


def finds(data: bytes) -> list[str]:
    """The secrets in these bytes, as text, as Java's UTF-16, or in base64 at any of its three places."""
    forms = [b"huntedsecretword", "huntedsecretword".encode("utf-16-be"), "huntedsecretword".encode("utf-16-le")]
    forms += [base64.b64encode(b"\0" * before + b"huntedsecretword").rstrip(b"=")[4:-2] for before in range(3)]
    return [str(data[data.index(form) - 60 : data.index(form) + 60]) for form in forms if form in data]


def test_the_hunt_finds_what_is_there() -> None:
    for before in ("", "x", "xy"):
        assert finds(base64.b64encode(f"{before}huntedsecretword-password".encode()))
    assert finds(b"...huntedsecretword...")
    assert not finds(b"hunted")


@pytest.mark.timeout(600)
def test_nothing_of_a_spark_application_shows_a_secret(tmp_path: Path) -> None:
    """Its output, with plans, progress, failures and all pages; its event log; its checkpoint. The directory of blocks
    is Spark's own memory, spilt to a disk, and is not searched: docs/security.md says what encrypts it."""
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", 2)
            admin.create_topic("u", 1)
        produce(broker, "t", 20, partitions=2)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, **SECRETS}
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.secret_driver",
                json.dumps({"home": str(tmp_path), "options": options}),
            ],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output.decode()[-4000:]
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path: data for path, data in written.items() if tmp_path / "local" not in path.parents}
    shown = [data for path, data in kept.items() if tmp_path / "events" in path.parents]
    assert any(QUERY.encode() in data for data in shown), "the event log is not where it is looked for"
    assert any(tmp_path / "checkpoint" in path.parents for path in kept)
    assert QUERY.encode() in output
    assert b"among the options kafka.*" in output  # the failures were seen
    assert output.count(b"\npage http://") == 11
    found = {str(path): finds(data) for path, data in {Path("output"): output, **kept}.items() if finds(data)}
    assert not found


def test_options_show_no_secret_and_carry_all_of_them() -> None:
    source = SourceOptions.parse({**SECRETS, "kafka.bootstrap.servers": "a:1", "subscribe": "t"}, streaming=True)
    sink = SinkOptions.parse({**SECRETS, "kafka.bootstrap.servers": "a:1", "topic": "t"})
    assert not finds(repr(source).encode())
    assert not finds(repr(sink).encode())
    secured = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    login = {"kafka.sasl.jaas.config": SECRETS["kafka.sasl.jaas.config"]}
    given = {**secured, **login, "kafka.bootstrap.servers": "a:1", "subscribe": "t"}
    travelled = pickle.loads(pickle.dumps(SourceOptions.parse(given, streaming=True)))
    assert travelled.consumer.security.password.reveal() == "huntedsecretword-jaas"
    assert not finds(repr(travelled).encode())
