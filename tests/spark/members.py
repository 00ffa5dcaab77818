"""What tests of queries as members share: a broker with a topic, what the group knows, and the settings of members."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from equipoise.member import OffsetAndMetadata, TopicPartition
from tests.client.writing import produce
from tests.spark.engine import Engine, until

PARTITIONS = 4
ALL = range(PARTITIONS)
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
# A session that outlives any pause of a busy machine; and one for those who are to be missed soon.
MEMBER = {
    "group__id": "g",
    "startingOffsets": "earliest",
    "kafka__session__timeout__ms": "60000",
    "kafka__heartbeat__interval__ms": "200",
}
MORTAL = {**MEMBER, "kafka__session__timeout__ms": "2000", "kafka__heartbeat__interval__ms": "100"}
DEATH_S = 5.0  # a pause that ends the session of a mortal


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        yield running


def fill(broker: Broker) -> None:
    """Ten records more in each partition."""
    produce(broker, "t", 10 * PARTITIONS, partitions=PARTITIONS)


def committed(broker: Broker) -> dict[int, OffsetAndMetadata]:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}) as asking:
        found = asking.committed(*[("t", number) for number in range(PARTITIONS + 2)])
    return {one.partition: at for one, at in found.items()}


def offsets(broker: Broker) -> dict[int, int]:
    return {partition: at.offset for partition, at in committed(broker).items()}


def commit_as_other(broker: Broker, places: dict[int, int]) -> None:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}) as other:
        other.commit({TopicPartition("t", partition): at for partition, at in places.items()})


def share_of(*engines: Engine) -> None:
    """Runs the queries until all partitions are shared evenly and known."""

    def is_shared() -> bool:
        counts = sorted(len(one.owned) for one in engines)
        return sum(counts) == PARTITIONS and counts[-1] - counts[0] <= 1

    until("the partitions are shared", is_shared, lambda: [one.batch() for one in engines])


@contextmanager
def planning_held(engine: Engine) -> Iterator[tuple[Future[bool], threading.Event]]:
    """The query plans a batch on a thread, and has asked for the ends: it goes on when the event is set."""
    ends, is_asked, may_go = engine.reader.ends, threading.Event(), threading.Event()

    async def slow(*given: Any) -> Any:
        found = await ends(*given)
        is_asked.set()
        while not may_go.is_set():
            await asyncio.sleep(0.01)
        return found

    engine.reader.ends = slow  # type: ignore[method-assign, assignment]
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(engine.plan)
        try:
            until("the ends are asked for", is_asked.is_set)
            yield planning, may_go
        finally:
            may_go.set()
