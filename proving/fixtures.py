"""The pytest fixtures of the proving ground: Apache Kafka and clusters, for the tests of this tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

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


class Shared(Generic[T]):
    """A cluster that tests of several files share. It ends when the next test is of a file without such tests: an idle
    one takes an eighth of a processor."""

    def __init__(self, fixture: str, name: str, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._fixture, self._name, self._make = fixture, name, make
        self._running: ExitStack | None = None
        self._files: set[Path] = set()

    def get(self) -> T:
        """It is started for the first test."""
        if self._running is None:
            running, one = ExitStack(), contextmanager(_required)
            self._cluster: T = running.enter_context(one(self._make, self._name))
            self._running = running
        return self._cluster

    def ends_before(self, following: pytest.Item | None, items: Sequence[pytest.Item]) -> None:
        """Unless this test is of a file that needs it."""
        if self._running is None:
            return
        self._files = self._files or {one.path for one in items if self._fixture in getattr(one, "fixturenames", ())}
        if following is None or following.path not in self._files:
            self.close()

    def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()


def _make_kafka_cluster() -> KafkaCluster:
    from proving.kafka_cluster import KafkaCluster

    return KafkaCluster()


def _make_spark_cluster() -> SparkCluster:
    from proving.spark_cluster import SparkCluster

    return SparkCluster()


_KAFKA = Shared("kafka_cluster", "a cluster of Apache Kafka", _make_kafka_cluster)
_SPARK = Shared("spark_cluster", "a Spark cluster", _make_spark_cluster)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    for shared in (_KAFKA, _SPARK):
        shared.ends_before(nextitem, item.session.items)


@pytest.fixture(scope="session")
def _clusters_end() -> Iterator[None]:
    """Also where a run is cut short."""
    yield
    _KAFKA.close()
    _SPARK.close()


@pytest.fixture
def kafka_cluster(_clusters_end: None) -> Iterator[KafkaCluster]:
    """Three brokers of Apache Kafka, the same for all tests: a test may kill, hang and stop them. Whole again for the
    next one. Skipped or failed as `kafka` is."""
    cluster = _KAFKA.get()
    yield cluster
    cluster.mend()


@pytest.fixture
def spark_cluster(_clusters_end: None) -> Iterator[SparkCluster]:
    """A master of Spark and two workers, the same for all tests: a test may kill workers and executors. Whole again
    for the next one. Skipped or failed as `kafka` is."""
    cluster = _SPARK.get()
    yield cluster
    cluster.mend()


def _required(make: Callable[[], AbstractContextManager[T]], name: str) -> Iterator[T]:
    from proving.fetched import Unavailable

    is_required = os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1"
    yield from running(make, Unavailable, name, pytest.fail if is_required else pytest.skip)
