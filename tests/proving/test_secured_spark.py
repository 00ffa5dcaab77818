"""Spark's own connector, spark-sql-kafka-0-10, on our broker behind SASL_SSL with SCRAM, and our source beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from equipoise.client import Admin
from proving.fetched import jars
from proving.secured_broker import SecuredEquipoise
from tests.proving.needed import needed
from tests.proving.secured_spark_job import ROWS
from tests.security.certificates import PASSWORD, java_truststore

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("pyspark") is None, reason="PySpark is not installed, to try Spark's own connector"),
]

ROOT = Path(__file__).parents[2]


def options(broker: SecuredEquipoise, place: Path) -> dict[str, str]:
    """By the names of the Java client, which both connectors take."""
    known = broker.security("SCRAM-SHA-512")
    login = f'required username="{known.user}" password="{known.password}";'
    return {
        "kafka.bootstrap.servers": known.bootstrap_servers,
        "kafka.security.protocol": known.protocol,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule {login}",
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.truststore.location": str(java_truststore(place, "PKCS12", broker.authority)),
        "kafka.ssl.truststore.password": PASSWORD,
    }


@pytest.mark.timeout(600)  # Spark takes its time on a busy machine
def test_both_connectors_pass_records_on(tmp_path: Path) -> None:
    connector = needed(lambda: jars("spark"))
    with SecuredEquipoise() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            for topic in ("kafka-kafka", "kafka-equipoise", "equipoise-kafka", "equipoise-equipoise"):
                admin.create_topic(topic, 2)
        given = options(broker, tmp_path)
        command = [sys.executable, "-m", "tests.proving.secured_spark_job", str(connector)]
        ended = subprocess.run(command, cwd=ROOT, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert len(found) == 4
    assert all(counts == [ROWS, ROWS] for counts in found.values()), found
