"""The pytest plugin. It loads with every pytest run where Equipoise is installed, so it imports nothing at first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from equipoise.broker import Broker
    from equipoise.proving.brokers import KafkaBroker
    from equipoise.proving.kafka_cluster import KafkaCluster
    from equipoise.proving.spark_cluster import SparkCluster
    from equipoise.zookeeper.server import Ensemble, ZooKeeperServer

T = TypeVar("T")


# A test's group is ready when its first member is: Kafka's wait of three seconds for more members is for production.
QUICK = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def equipoise_broker() -> Iterator[Broker]:
    """A broker in this process, in memory, on a free port of 127.0.0.1; gone when the test ends."""
    from equipoise.broker import Broker

    with Broker(QUICK) as running:
        yield running


@pytest.fixture
def broker(equipoise_broker: Broker) -> Broker:
    """The same under a shorter name. A project's own fixture of this name goes before it."""
    return equipoise_broker


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Apache Kafka as a process of its own, the same for all tests. Needs a JDK, and Maven the first time.

    Skipped, by name, where it cannot be had; a failure there if EQUIPOISE_REQUIRE_KAFKA=1.
    """
    from equipoise.proving.brokers import KafkaBroker

    yield from _proving(KafkaBroker, "Apache Kafka")


@pytest.fixture(scope="session")
def _shared_kafka_cluster() -> Iterator[KafkaCluster]:
    from equipoise.proving.kafka_cluster import KafkaCluster

    yield from _proving(KafkaCluster, "a cluster of Apache Kafka")


@pytest.fixture
def kafka_cluster(_shared_kafka_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Three brokers of Apache Kafka, the same for all tests: a test may kill, hang and stop them. Whole again for the
    next one. Skipped or failed as `kafka` is."""
    yield _shared_kafka_cluster
    _shared_kafka_cluster.mend()


@pytest.fixture(scope="session")
def _shared_spark_cluster() -> Iterator[SparkCluster]:
    from equipoise.proving.spark_cluster import SparkCluster

    yield from _proving(SparkCluster, "a Spark cluster")


@pytest.fixture
def spark_cluster(_shared_spark_cluster: SparkCluster) -> Iterator[SparkCluster]:
    """A master of Spark and two workers, the same for all tests: a test may kill workers and executors. Whole again
    for the next one. Skipped or failed as `kafka` is."""
    yield _shared_spark_cluster
    _shared_spark_cluster.mend()


def _proving(make: Callable[[], AbstractContextManager[T]], name: str) -> Iterator[T]:
    from equipoise.proving.fetched import Unavailable

    is_required = os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1"
    yield from _running(make, Unavailable, name, pytest.fail if is_required else pytest.skip)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server, the same for all tests. Skipped where there is no Java or no PySpark."""
    from equipoise.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable

    yield from _running(ZooKeeperServer, ZooKeeperUnavailable, "ZooKeeper", pytest.skip)


@pytest.fixture
def zookeeper_ensemble() -> Iterator[Ensemble]:
    """Three ZooKeeper servers, of which a test may kill one; for this test alone."""
    from equipoise.zookeeper.server import Ensemble, ZooKeeperUnavailable

    yield from _running(Ensemble, ZooKeeperUnavailable, "ZooKeeper", pytest.skip)


def _running(
    make: Callable[[], AbstractContextManager[T]],
    unavailable: type[Exception],
    name: str,
    give_up: Callable[[str], NoReturn],
) -> Iterator[T]:
    try:
        server = make()
    except unavailable as missing:
        give_up(f"{name}: {missing}")
    with server as running:
        yield running
