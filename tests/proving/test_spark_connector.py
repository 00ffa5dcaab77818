"""Spark's own Kafka connector, spark-sql-kafka-0-10, does with our broker what it does with Apache Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from equipoise.client import Admin
from equipoise.proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from equipoise.proving.fetched import jars
from tests.proving.needed import needed
from tests.proving.spark_job import FIRST, SECOND, TOPIC

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("pyspark") is None, reason="PySpark is not installed, to try Spark's own connector"),
]

PARTITIONS = 3
ROOT = Path(__file__).parent.parent.parent


def run_job(*brokers: BrokerProcess) -> dict[str, Any]:
    connector = needed(lambda: jars("spark"))
    addresses = [broker.bootstrap_servers for broker in brokers]
    command = [sys.executable, "-m", "tests.proving.spark_job", str(connector), *addresses]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.timeout(600)  # Spark takes its time on a busy machine
def test_the_connector_writes_and_reads_in_batches_and_streams(kafka: KafkaBroker) -> None:
    with EquipoiseBroker() as ours:
        for broker in (kafka, ours):
            with Admin(broker.bootstrap_servers) as admin:
                admin.create_topic(TOPIC, PARTITIONS)
        found = run_job(kafka, ours)
        with Admin(ours.bootstrap_servers) as admin:
            ends = {str(index): offsets.latest for index, offsets in admin.offsets(TOPIC).items()}
    first, second = found[ours.bootstrap_servers]["streamed"]
    assert (first["count"], second["count"]) == (FIRST, SECOND)
    assert second["end"] == ends
    rows = found[ours.bootstrap_servers]["rows"]
    assert rows == sorted([str(number), str(number * 2), "source", TOPIC] for number in range(FIRST))
    assert found[ours.bootstrap_servers] == found[kafka.bootstrap_servers]
