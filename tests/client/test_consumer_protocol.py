"""Consumers with group.protocol=consumer on our broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from equipoise import AsyncConsumer, Broker
from equipoise.member import Member
from equipoise.wire.errors import ErrorCode
from tests.client.consumer_protocol import MIXED, PATTERNS, SCENARIOS, create, fresh, settled
from tests.client.group_of_readers import readers, until
from tests.client.test_consumer_protocol_kafka import QUICK
from tests.client.writing import Reachable, produce


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    """Ours, with the short intervals of the tests on Apache Kafka."""
    with Broker(QUICK) as broker:
        yield broker


@pytest.mark.parametrize("scenario", [*SCENARIOS, *PATTERNS, *MIXED], ids=lambda one: one.__name__)
def test_the_scenario(scenario: Callable[[Reachable], None], quick_broker: Broker) -> None:
    scenario(quick_broker)


@pytest.fixture(scope="module")
def classic_broker() -> Iterator[Broker]:
    """One without consumer groups."""
    with Broker({"group.coordinator.rebalance.protocols": "classic", "group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


def test_b2_4_auto_is_classic_on_a_broker_without_consumer_groups(classic_broker: Broker) -> None:
    topic = create(classic_broker, 4)
    with readers(classic_broker, fresh("g")) as group:
        a = group.add("a", topic, group_protocol="auto", heartbeat_interval_ms=3_000)
        b = group.add("b", topic, group_protocol="auto")
        settled(a, b, total=4)
        assert isinstance(b.consumer._engine.member, Member)
        assert a.failures == b.failures == []


def test_b2_4_consumer_is_refused_there_with_the_advice(classic_broker: Broker) -> None:
    topic = create(classic_broker, 1)
    with readers(classic_broker, fresh("g")) as group:
        a = group.add("a", topic)
        until(lambda: len(a.failures) > 1)
        assert {getattr(one, "code", None) for one in a.failures} == {ErrorCode.UNSUPPORTED_VERSION}
        assert "group.protocol=classic" in str(a.failures[0])


def test_b10_3_a_static_member_that_is_told_to_leave_leaves_for_good(quick_broker: Broker) -> None:
    topic = create(quick_broker)
    with readers(quick_broker, fresh("g")) as group:
        a = group.add("a", topic, group_instance_id="one")
        b = group.add("b", topic)
        settled(a, b)
        a.stop()
        a.consumer.close(leave=True)
        settled(b)


def test_async_consumers_share_and_hand_over(quick_broker: Broker) -> None:
    topic, group_id = create(quick_broker), fresh("g")
    settings = {
        "bootstrap.servers": quick_broker.bootstrap_servers,
        "group.id": group_id,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }
    read: list[tuple[int, int]] = []

    async def poll_until(holds: Callable[[], bool], *consumers: AsyncConsumer) -> None:
        async with asyncio.timeout(60):
            while not holds():
                for consumer in consumers:
                    read.extend((one.partition, one.offset) for one in await consumer.poll(0.02))

    async def main() -> None:
        async with AsyncConsumer(settings) as a:
            a.subscribe([topic])
            await poll_until(lambda: len(a.assignment()) == 6, a)
            async with AsyncConsumer(settings) as b:
                b.subscribe([topic])
                await poll_until(lambda: len(a.assignment()) == len(b.assignment()) == 3, a, b)
                assert not a.assignment() & b.assignment()
                await asyncio.to_thread(produce, quick_broker, topic, 60, partitions=6)
                await poll_until(lambda: len(read) == 60, a, b)
            await poll_until(lambda: len(a.assignment()) == 6, a)
        assert len(set(read)) == 60

    asyncio.run(main())
