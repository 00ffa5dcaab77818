"""The pytest plugin. pytest loads it in every run where Equipoise is installed, so it imports nothing at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from equipoise.broker import Broker
    from equipoise.zookeeper.server import Ensemble, ZooKeeperServer

T = TypeVar("T")


# A test's group is ready with its first member. Kafka's wait of three seconds for more members is for production.
QUICK = {"group.initial.rebalance.delay.ms": 0}


@pytest.fixture
def equipoise_broker() -> Iterator[Broker]:
    """A broker in this process, in memory, on a free port of 127.0.0.1. It stops when the test ends."""
    from equipoise.broker import Broker

    with Broker(QUICK) as running:
        yield running


@pytest.fixture
def broker(equipoise_broker: Broker) -> Broker:
    """The same broker under a shorter name. A project's own fixture `broker` overrides it."""
    return equipoise_broker


@pytest.fixture
def secured_broker() -> Iterator[Broker]:
    """The same with TLS and SASL, for the users alice and bob: `client_settings("bob")` connects as bob."""
    from equipoise.broker import Broker

    with Broker(QUICK, security="SASL_SSL", users={"alice": "alice-secret", "bob": "bob-secret"}) as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper server, the same for all tests. The test is skipped if there is no Java or no PySpark."""
    from equipoise.zookeeper.server import ZooKeeperServer, ZooKeeperUnavailable

    yield from running(ZooKeeperServer, ZooKeeperUnavailable, "ZooKeeper", pytest.skip)


@pytest.fixture
def zookeeper_ensemble() -> Iterator[Ensemble]:
    """Three ZooKeeper servers for this test alone. The test may kill one."""
    from equipoise.zookeeper.server import Ensemble, ZooKeeperUnavailable

    yield from running(Ensemble, ZooKeeperUnavailable, "ZooKeeper", pytest.skip)


def running(
    make: Callable[[], AbstractContextManager[T]],
    unavailable: type[Exception],
    name: str,
    give_up: Callable[[str], NoReturn],
) -> Iterator[T]:
    """Runs a server for a fixture. If the server is unavailable, `give_up` gets the reason."""
    try:
        server = make()
    except unavailable as missing:
        give_up(f"{name}: {missing}")
    with server as started:
        yield started
