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
    from equipoise.zookeeper.server import Ensemble, ZooKeeperServer

T = TypeVar("T")


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker in this process, in memory, on a free port of 127.0.0.1; gone when the test ends."""
    from equipoise.broker import Broker

    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Apache Kafka as a process of its own, the same for all tests. Needs a JDK, and Maven the first time.

    Skipped, by name, where it cannot be had; a failure there if EQUIPOISE_REQUIRE_KAFKA=1.
    """
    from equipoise.proving.brokers import KafkaBroker
    from equipoise.proving.fetched import Unavailable

    is_required = os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1"
    yield from _running(KafkaBroker, Unavailable, "Apache Kafka", pytest.fail if is_required else pytest.skip)


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
