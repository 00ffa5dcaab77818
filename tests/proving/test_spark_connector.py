"""Spark's own Kafka connector, spark-sql-kafka-0-10, does with our broker what it does with Apache Kafka; and our
source does with both what the official one does."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.fetched import jars
from tests.proving.needed import needed
from tests.proving.spark_job import COMMITTED, FIRST, ODD, ODD_PARTITIONS, OFFICIAL, OURS, SECOND, TIME, TOPIC

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
    told = [line for line in ended.stderr.splitlines() if not line.lstrip().startswith("at ")]  # but for Java's stacks
    assert ended.returncode == 0, "\n".join(told)[-4000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def fill_oddities(broker: BrokerProcess, *, transactions: bool) -> None:
    """Records without keys, values, headers; all codecs; times of the broker; transactions, kept and aborted."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(ODD, ODD_PARTITIONS, {"retention.ms": "-1"})  # the records are old
        admin.create_topic(f"{ODD}-append-time", 1, {"message.timestamp.type": "LogAppendTime"})
    for turn, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = _producer(broker, codec)
        for number in range(10 * turn, 10 * turn + 10):
            producer.produce(ODD, timestamp=TIME + 1000 * number, partition=number % ODD_PARTITIONS, **_oddity(number))
        producer.produce(f"{ODD}-append-time", b"by the broker's clock", timestamp=TIME)
        assert producer.flush(120) == 0
    for is_kept in (True, False, True) if transactions else ():
        producer = _producer(broker, "lz4", **{"transactional.id": "odd"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(30):
            producer.produce(ODD, b"kept" if is_kept else b"aborted", partition=number % ODD_PARTITIONS)
        producer.flush(120)
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)


def _producer(broker: BrokerProcess, codec: str, **more: Any) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "log_level": 0, **more}
    return Producer(settings)


def _oddity(number: int) -> dict[str, Any]:
    return {
        "key": (None, b"", b"key")[number % 3],
        "value": (b"value" * number, None, b"")[number % 4 % 3],
        "headers": (None, [("a", b"1"), ("a", None), ("\u00fc", b"")])[number % 2],
    }


@pytest.mark.timeout(600)  # Spark takes its time on a busy machine
def test_the_connectors_do_the_same_on_both_brokers(kafka: KafkaBroker) -> None:
    with EquipoiseBroker() as ours:
        for broker in (kafka, ours):
            with Admin(broker.bootstrap_servers) as admin:
                admin.create_topic(TOPIC, PARTITIONS)
            fill_oddities(broker, transactions=broker is kafka)
        found = run_job(kafka, ours)
        with Admin(ours.bootstrap_servers) as admin:
            ends = {str(index): offsets.latest for index, offsets in admin.offsets(TOPIC).items()}
    on_ours, on_kafka = found[ours.bootstrap_servers], found[kafka.bootstrap_servers]
    assert [one["count"] for one in on_ours["streamed"]] == [FIRST, SECOND, SECOND]
    assert on_ours["streamed"][-1]["end"] == ends
    assert on_ours["rows"] == sorted([str(number), str(number * 2), "source", TOPIC] for number in range(FIRST))
    for name in ("rows", "streamed"):
        assert on_ours[name] == on_kafka[name]
    for answers in (on_ours, on_kafka):
        for name, read in answers["read"].items():
            assert read["same schema"], name
            assert read["ours"] == read["official"], name
            assert read["ours"], name
    assert all(who == [OFFICIAL, OURS] for who in found["refused"].values()), found["refused"]
    assert len(on_kafka["read"][COMMITTED]["ours"]) == 50 + 60
    assert len(on_kafka["read"]["all"]["ours"]) == 50 + 90 + 5
