"""The pytest fixtures of the proving ground: Apache Kafka and clusters, for the tests of this tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

import pytest

from equipoise.testing.plugin import running

if TYPE_CHECKING:
    from proving.brokers import KafkaBroker
    from proving.kafka_cluster import KafkaCluster
    from proving.spark_cluster import SparkCluster

T = TypeVar("T")


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Apache Kafka as a process of its own, the same for all tests. Needs a JDK, and Maven the first time.

    Skipped, by name, where it cannot be had; a failure there if EQUIPOISE_REQUIRE_KAFKA=1.
    """
    from proving.brokers import SOON_BACK, KafkaBroker

    yield from _required(lambda: KafkaBroker(SOON_BACK), "Apache Kafka")


@pytest.fixture(scope="session")
def _shared_kafka_cluster() -> Iterator[KafkaCluster]:
    from proving.kafka_cluster import KafkaCluster

    yield from _required(KafkaCluster, "a cluster of Apache Kafka")


@pytest.fixture
def kafka_cluster(_shared_kafka_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three brokers of Apache Kafka, the same for all tests: a test may kill, hang and stop them. Whole again for the
    next one. Skipped or failed as `kafka` is."""
    yield _shared_kafka_cluster
    _shared_kafka_cluster.mend()


@pytest.fixture(scope="session")
def _shared_spark_cluster() -> Iterator[SparkCluster]:
    from proving.spark_cluster import SparkCluster

    yield from _required(SparkCluster, "a Spark cluster")


@pytest.fixture
def spark_cluster(_shared_spark_cluster: SparkCluster) -> Iterator[SparkCluster]:
    """A master of Spark and two workers, the same for all tests: a test may kill workers and executors. Whole again
    for the next one. Skipped or failed as `kafka` is."""
    yield _shared_spark_cluster
    _shared_spark_cluster.mend()


def _required(make: Callable[[], AbstractContextManager[T]], name: str) -> Iterator[T]:
    from proving.fetched import Unavailable

    is_required = os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1"
    yield from running(make, Unavailable, name, pytest.fail if is_required else pytest.skip)
