"""Spark's source and sink on our broker behind TLS and SASL, with ACLs: executors log in; denials are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException

from equipoise.broker import Broker
from equipoise.client import Acl, AclOperation, AclPermissionType, Admin, ResourcePattern, ResourceType

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
SETTINGS = {"authorizer.class.name": "acl", "super.users": "User:admin", "group.initial.rebalance.delay.ms": 0}
ROWS = 200


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    topics = {"orders": 2, "copies": 1, "hidden": 1}
    with Broker(SETTINGS, topics=topics, security="SASL_SSL", users=USERS) as broker:
        orders = ResourcePattern(ResourceType.TOPIC, "orders")
        given: dict[str, Any] = {
            name.replace(".", "_"): value for name, value in broker.client_settings("admin").items()
        }
        with Admin(given.pop("bootstrap_servers"), **given) as admin:
            admin.create_acls(
                Acl(orders, "User:alice", "*", operation, AclPermissionType.ALLOW)
                for operation in (AclOperation.READ, AclOperation.WRITE)
            )
        yield broker


def options(broker: Broker, **more: str) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in broker.client_settings("alice", "SCRAM-SHA-512").items()} | more


def test_executors_log_in_to_write_and_to_read(spark: Any, secured: Broker) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id as string) as value")
    rows.write.format("equipoise").options(**options(secured, topic="orders")).mode("append").save()
    read = spark.read.format("equipoise").options(**options(secured, subscribe="orders")).load()
    assert sorted(int(bytes(row.value)) for row in read.select("value").collect()) == list(range(ROWS))


def test_a_denied_topic_ends_a_batch_and_the_remedy_is_told(spark: Any, secured: Broker) -> None:
    with pytest.raises(PySparkException, match="User:alice needs READ on topic hidden; allow it with"):
        spark.read.format("equipoise").options(**options(secured, subscribe="hidden")).load().collect()


def test_a_denied_topic_of_a_sink(spark: Any, secured: Broker) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="User:alice needs WRITE on topic copies; allow it with"):
        rows.write.format("equipoise").options(**options(secured, topic="copies")).mode("append").save()
