"""Spark's source and sink on Apache Kafka behind TLS and SASL: executors log in; a wrong password ends a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from equipoise.client import Admin
from proving.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka
ROWS = 500


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    with SecuredKafka() as kafka, Admin(kafka.bootstrap_servers) as admin:
        admin.create_topic("t", 2)
        yield kafka


def options(secured: SecuredKafka, way: str, **more: str) -> dict[str, str]:
    return {f"kafka.{name}": str(value) for name, value in secured.client(way).items()} | more


def test_rows_are_written_and_read_back(spark: Any, secured: SecuredKafka, tmp_path: Path) -> None:
    given = options(secured, "SCRAM-SHA-512")
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value")
    rows.write.format("equipoise").options(**given, topic="t").mode("append").save()
    batch = spark.read.format("equipoise").options(**given, subscribe="t").load()
    numbers = batch.selectExpr("cast(cast(value as string) as int) as n")
    assert sorted(row.n for row in numbers.collect()) == list(range(ROWS))

    stream = spark.readStream.format("equipoise").options(**given, subscribe="t", startingOffsets="earliest").load()
    writer = stream.writeStream.format("memory").queryName("secured").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table("secured").count() == ROWS


def test_a_wrong_password_ends_a_query_and_is_not_shown(spark: Any, secured: SecuredKafka) -> None:
    given = options(secured, "SCRAM-SHA-512") | {"kafka.sasl.password": "wrong-secret"}
    with pytest.raises(PySparkException, match="refuses the login with SCRAM-SHA-512") as raised:
        spark.read.format("equipoise").options(**given, subscribe="t").load().collect()
    assert "wrong-secret" not in str(raised.value)
