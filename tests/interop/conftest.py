"""One broker for each module, and the clients that talk to it. A missing client is a skip, or with
EQUIPOISE_REQUIRE_CLIENTS=1, as in CI, a failure."""

from __future__ import annotations

import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.records.batch import BatchHeader, iter_headers
from proving.members.events import Place
from proving.members.fleet import places_of
from tests.interop import groups
from tests.interop.drivers import DRIVERS, AioKafka, Confluent, Driver, KafkaJs, KafkaPython, Kcat, MissingClient

PARTITIONS = 6
SETTINGS = {"num.partitions": PARTITIONS, **groups.SETTINGS}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_failed_requests() -> Iterator[None]:
    """A client may try again and hide it: no request may have failed in the broker, nor been refused as illegal."""
    failures: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failures.append(self.format(record))

    listener = Listener(logging.WARNING)
    of_a_broker = [logging.getLogger(f"equipoise.{name}") for name in ("broker", "coordinator", "log")]
    for logger in of_a_broker:
        logger.addHandler(listener)
    yield
    for logger in of_a_broker:
        logger.removeHandler(listener)
    assert not failures, failures[0]


@pytest.fixture(scope="module")
def open_client(broker: Broker) -> Iterator[Callable[[str], Driver]]:
    """A driver by the client's name; asked for again, the same one."""
    opened: dict[str, Driver] = {}
    with ExitStack() as stack:

        def open_it(name: str) -> Driver:
            if name not in opened:
                opened[name] = open_driver(name, broker.bootstrap_servers)
                stack.callback(opened[name].close)
            return opened[name]

        yield open_it


def open_driver(name: str, bootstrap_servers: str) -> Driver:
    try:
        return DRIVERS[name](bootstrap_servers)
    except MissingClient as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(params=list(DRIVERS))
def client(request: pytest.FixtureRequest, open_client: Callable[[str], Driver]) -> Driver:
    """Each client in turn."""
    return open_client(request.param)


@pytest.fixture
def confluent(open_client: Callable[[str], Driver]) -> Confluent:
    return cast(Confluent, open_client(Confluent.name))


@pytest.fixture
def kafka_python(open_client: Callable[[str], Driver]) -> KafkaPython:
    return cast(KafkaPython, open_client(KafkaPython.name))


@pytest.fixture
def aiokafka(open_client: Callable[[str], Driver]) -> AioKafka:
    return cast(AioKafka, open_client(AioKafka.name))


@pytest.fixture
def kcat(open_client: Callable[[str], Driver]) -> Kcat:
    return cast(Kcat, open_client(Kcat.name))


@pytest.fixture
def kafkajs(open_client: Callable[[str], Driver]) -> KafkaJs:
    return cast(KafkaJs, open_client(KafkaJs.name))


@pytest.fixture
def topic() -> str:
    """A name no other test has."""
    return f"topic-{uuid.uuid4()}"


@pytest.fixture
def places(request: pytest.FixtureRequest, confluent: Confluent, topic: str) -> set[Place]:
    """The partitions of the topic, which is created with as many as the module's PARTITIONS say."""
    count = request.module.PARTITIONS
    confluent.create_topic(topic, count)
    return places_of(topic, count)


@pytest.fixture(scope="module")
def fleet(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[groups.Fleet]:
    """Members of groups, in processes that the module's tests share."""
    with groups.Fleet(broker.bootstrap_servers, tmp_path_factory.mktemp("members") / "log") as running:
        yield running


def batches_in_log(broker: Broker, topic: str) -> list[BatchHeader]:
    """The batches as they lie in the log: clients may do otherwise than they were told, and say nothing."""

    def look(server: Server) -> list[BatchHeader]:
        return [
            header
            for partition in server.topics.require(topic).partitions
            for chunk in partition.log.read(partition.log.log_start_offset, 1 << 30, partition.log.high_watermark)
            for _, header in iter_headers(chunk)
        ]

    return broker.call(look)


def records_by_codec(broker: Broker, topic: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for batch in batches_in_log(broker, topic):
        counts[batch.codec.name.lower()] += batch.record_count
    return counts
