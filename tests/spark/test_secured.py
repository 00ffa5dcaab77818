"""Spark's source and sink behind TLS and SASL, on our broker and on Apache Kafka: executors log in; a wrong password
ends a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from equipoise.client import Admin
from proving.secured_broker import SecuredBroker, SecuredEquipoise
from proving.secured_kafka import SecuredKafka
from tests.proving.needed import needed
from tests.security.certificates import PASSWORD, java_truststore

ROWS = 500
BROKERS = [SecuredEquipoise, pytest.param(SecuredKafka, marks=pytest.mark.kafka)]


@pytest.fixture(scope="module", params=BROKERS, ids=lambda made: made.name)
def secured(request: pytest.FixtureRequest) -> Iterator[SecuredBroker]:
    with needed(request.param) as broker:
        yield broker


def options(secured: SecuredBroker, way: str, _: Path) -> dict[str, str]:
    return {f"kafka.{name}": str(value) for name, value in secured.client(way).items()}


def options_of_java(secured: SecuredBroker, way: str, place: Path) -> dict[str, str]:
    """By the names of the Java client, with a truststore of keytool."""
    store, known = java_truststore(place, "PKCS12", secured.authority), secured.security(way)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "kafka.bootstrap.servers": known.bootstrap_servers,
        "kafka.security.protocol": known.protocol,
        "kafka.sasl.mechanism": way,
        "kafka.sasl.jaas.config": f'{module} required username="{known.user}" password="{known.password}";',
        "kafka.ssl.truststore.type": "PKCS12",
        "kafka.ssl.truststore.location": str(store),
        "kafka.ssl.truststore.password": PASSWORD,
    }


@pytest.mark.parametrize("named", [options, options_of_java])
def test_rows_are_written_and_read_back(spark: Any, secured: SecuredBroker, tmp_path: Path, named: Any) -> None:
    given, topic = named(secured, "SCRAM-SHA-512", tmp_path), named.__name__
    with Admin(secured.bootstrap_servers) as admin:
        admin.create_topic(topic, 2)
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value")
    rows.write.format("equipoise").options(**given, topic=topic).mode("append").save()
    batch = spark.read.format("equipoise").options(**given, subscribe=topic).load()
    numbers = batch.selectExpr("cast(cast(value as string) as int) as n")
    assert sorted(row.n for row in numbers.collect()) == list(range(ROWS))

    stream = spark.readStream.format("equipoise").options(**given, subscribe=topic, startingOffsets="earliest").load()
    writer = stream.writeStream.format("memory").queryName(topic).option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table(topic).count() == ROWS


def test_a_wrong_password_ends_a_query_and_is_not_shown(spark: Any, secured: SecuredBroker, tmp_path: Path) -> None:
    given = options(secured, "SCRAM-SHA-512", tmp_path) | {"kafka.sasl.password": "wrong-secret"}
    with pytest.raises(PySparkException, match="refuses the login with SCRAM-SHA-512") as raised:
        spark.read.format("equipoise").options(**given, subscribe="options").load().collect()
    assert "wrong-secret" not in str(raised.value)
