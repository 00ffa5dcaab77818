"""Spark's own connector, spark-sql-kafka-0-10, and ours on our broker with ACLs: TLS, mutual TLS, each mechanism."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from equipoise.client import Admin
from proving.fetched import jars
from proving.members.security import Security
from proving.secured_broker import ACLS, MECHANISMS, SecuredEquipoise
from tests.proving.needed import needed
from tests.proving.secured_spark_job import ROWS, pairs_of, topic_of
from tests.security.certificates import PASSWORD, java_truststore

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("pyspark") is None, reason="PySpark is not installed, to try Spark's own connector"),
]

ROOT = Path(__file__).parents[2]


WAYS = ("TLS", "MUTUAL", *MECHANISMS)
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


def options(broker: SecuredEquipoise, truststore: Path, way: str) -> dict[str, str]:
    """By the names of the Java client, which both connectors take."""
    known = broker.security(way)
    made = {
        "kafka.bootstrap.servers": known.bootstrap_servers,
        "kafka.security.protocol": known.protocol,
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.truststore.location": str(truststore),
        "kafka.ssl.truststore.password": PASSWORD,
    }
    if known.certificate is not None:
        made |= {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": known.certificate}
    if known.mechanism is not None:
        made |= {"kafka.sasl.mechanism": way, "kafka.sasl.jaas.config": login(known)}
    if known.mechanism == "OAUTHBEARER":  # Java makes tokens without a signature unasked, ours does not
        made["kafka.enable.sasl.oauthbearer.unsecure.jwt"] = "true"
    return made


def login(known: Security) -> str:
    assert known.mechanism is not None
    given = f'username="{known.user}" password="{known.password}"'
    if known.mechanism == "OAUTHBEARER":
        given = f'unsecuredLoginStringClaim_sub="{known.user}"'
    return f"org.apache.kafka.common.security.{MODULES[known.mechanism]} required {given};"


@pytest.mark.timeout(900)  # Spark takes its time on a busy machine
def test_both_connectors_pass_records_on_by_each_way(tmp_path: Path) -> None:
    connector = needed(lambda: jars("spark"))
    topics = [topic_of(way, *pair) for way in WAYS for pair in pairs_of(way)]
    with SecuredEquipoise(ACLS) as broker:
        broker.allow_open()
        with Admin(broker.bootstrap_servers) as admin:
            for topic in topics:
                admin.create_topic(topic, 2)
        truststore = java_truststore(tmp_path, "PKCS12", broker.authority)
        given = {way: options(broker, truststore, way) for way in WAYS}
        command = [sys.executable, "-m", "tests.proving.secured_spark_job", str(connector)]
        ended = subprocess.run(command, cwd=ROOT, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {topic: [ROWS, ROWS] for topic in topics}
