"""The consumer for asyncio: the same behaviour, on the application's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import (
    Admin,
    AsyncConsumer,
    CommitFailedError,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from equipoise.wire.errors import UsageError
from tests.client.writing import produce

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(request.node.name, 3)
    return str(request.node.name)


def settings(broker: Broker, group: str) -> dict[str, object]:
    return {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work

    asyncio.run(bounded())


async def wait(consumer: AsyncConsumer, is_so: Callable[[], object]) -> list[Any]:
    found: list[Any] = []
    while not is_so():
        found += await consumer.poll(0.05)
    return found


class Told(RebalanceListener):
    """Coroutines beside a plain method."""

    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []

    async def on_assigned(self, consumer: AsyncConsumer, added: Any) -> None:
        await asyncio.sleep(0)
        self.events.append(("assigned", {one.partition for one in added}))

    async def on_revoked(self, consumer: AsyncConsumer, removed: Any) -> None:
        await consumer.commit()
        self.events.append(("revoked", {one.partition for one in removed}))

    def on_lost(self, consumer: AsyncConsumer, lost: Any) -> None:
        self.events.append(("lost", {one.partition for one in lost}))


def test_reading_committing_and_resuming(broker: Broker, topic: str) -> None:
    produce(broker, topic, 30)

    async def main() -> None:
        rows = []
        async with AsyncConsumer(settings(broker, topic), enable_auto_commit=False) as consumer:
            consumer.subscribe(topic)
            async for record in consumer:
                rows.append((record.partition, record.offset))
                if len(rows) == 30:
                    break
            places = [TopicPartition(topic, number) for number in range(3)]
            await consumer.commit({places[0]: 4, places[1]: OffsetAndMetadata(5, "m")})
            assert await consumer.committed() == {
                places[0]: OffsetAndMetadata(4),
                places[1]: OffsetAndMetadata(5, "m"),
            }
            assert await consumer.position(places[2]) == 10
            assert await consumer.end_offsets(places[2]) == {places[2]: 10}
        assert sorted(rows) == [(partition, offset) for partition in range(3) for offset in range(10)]
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            consumer.subscribe(topic)
            count = 0
            async for _ in consumer:
                count += 1
                if count == 21:
                    break
            assert await consumer.poll(0.05) == []

    run(main())


def test_iterating_commits_no_more_than_it_has_yielded(broker: Broker, topic: str) -> None:
    produce(broker, topic, 20, partitions=1)
    place = TopicPartition(topic, 0)

    async def until(consumer: AsyncConsumer, offset: int) -> None:
        async for record in consumer:
            if record.offset == offset:
                break

    async def committed() -> int:
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            return (await consumer.committed(place))[place].offset

    async def main() -> None:
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            consumer.subscribe(topic)
            await until(consumer, 4)
        assert await committed() == 4
        async with AsyncConsumer(settings(broker, topic), enable_auto_commit=False) as consumer:
            consumer.subscribe(topic)
            await until(consumer, 7)
            await consumer.commit()
            assert await committed() == await consumer.position(place) == 8
            consumer.pause(place)
            assert await consumer.poll(0.05) == []
            consumer.resume(place)
            await until(consumer, 8)
            assert [record.offset for record in await consumer.poll()] == list(range(9, 20))

    run(main())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_on_one_loop_hand_over(broker: Broker, strategy: str) -> None:
    topic = f"two-on-one-loop-{strategy}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 3)

    async def main() -> None:
        told = Told(), Told()
        config = settings(broker, topic) | {"partition.assignment.strategy": strategy}
        async with AsyncConsumer(config) as first, AsyncConsumer(config) as second:
            first.subscribe(topic, told[0])
            await wait(first, lambda: len(first.assignment()) == 3)
            second.subscribe(topic, told[1])

            def both() -> bool:
                return sorted((len(first.assignment()), len(second.assignment()))) == [1, 2]

            await asyncio.gather(wait(first, both), wait(second, both))
            await second.close()
            await wait(first, lambda: len(first.assignment()) == 3)
        revoked = [numbers for kind, numbers in told[0].events[:-1] if kind == "revoked"]
        assert sorted(map(len, revoked)) in ([[1], [2]] if strategy == "cooperative-sticky" else [[1, 3], [2, 3]])
        assert told[1].events[-1][0] == "revoked"

    run(main())


class Slow(RebalanceListener):
    """Takes longer than a poll may, and is let go on."""

    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[str] = []
        self.fails = fails
        self.may_end = asyncio.Event()

    async def on_assigned(self, consumer: AsyncConsumer, added: Any) -> None:
        self.heard.append("begin")
        with pytest.raises(UsageError, match="inside a rebalance listener"):
            await consumer.poll(0)
        await self.may_end.wait()
        if self.fails:
            raise RuntimeError("the listener's")
        for one in added:
            consumer.seek(one, 5)
        self.heard.append("end")

    async def on_revoked(self, consumer: AsyncConsumer, removed: Any) -> None:
        await asyncio.sleep(0.01)
        await consumer.commit()
        self.heard.append("revoked")


async def cancel_polls(consumer: AsyncConsumer, listener: Slow) -> None:
    """Two while the listener runs."""
    for _ in range(2):
        polling = asyncio.create_task(consumer.poll(PATIENCE_S))
        while not polling.done() and not (listener.heard and consumer._in_use.locked()):
            await asyncio.sleep(0.01)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_listener_outlives_a_poll_that_is_cancelled(broker: Broker, protocol: str) -> None:
    topic = f"cancelled-{protocol}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 1)
    produce(broker, topic, 10, partitions=1)
    config = settings(broker, topic) | {"group.protocol": protocol, "enable.auto.commit": False}

    async def main() -> None:
        listener = Slow()
        async with AsyncConsumer(config) as consumer:
            consumer.subscribe(topic, listener)
            await cancel_polls(consumer, listener)
            asyncio.get_running_loop().call_later(0.05, listener.may_end.set)
            assert [record.offset for record in await consumer.poll(PATIENCE_S)] == list(range(5, 10))
        assert listener.heard == ["begin", "end", "revoked"]
        async with AsyncConsumer(config) as consumer:
            assert (await consumer.committed((topic, 0)))[TopicPartition(topic, 0)].offset == 10

    run(main())


def test_a_listener_that_fails_behind_a_cancelled_poll_fails_the_next(broker: Broker, topic: str) -> None:
    async def main() -> None:
        listener = Slow(fails=True)
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            consumer.subscribe(topic, listener)
            await cancel_polls(consumer, listener)
            listener.may_end.set()
            await asyncio.sleep(0.01)
            with pytest.raises(RuntimeError, match="the listener's"):
                await consumer.poll()
            await wait(consumer, lambda: len(consumer.assignment()) == 3)

    run(main())


def test_close_waits_for_the_listener_of_a_cancelled_poll(broker: Broker, topic: str) -> None:
    async def main() -> None:
        listener = Slow()
        consumer = AsyncConsumer(settings(broker, topic))
        consumer.subscribe(topic, listener)
        await cancel_polls(consumer, listener)
        asyncio.get_running_loop().call_later(0.05, listener.may_end.set)
        await consumer.close()
        assert listener.heard == ["begin", "end", "revoked"]

    run(main())


def test_two_tasks_at_a_time_are_refused(broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            consumer.subscribe(topic)
            polling = asyncio.create_task(consumer.poll(5))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="another thread or task"):
                await consumer.poll(0)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            await wait(consumer, consumer.assignment)

    run(main())


def test_a_standalone_commit_to_a_live_group_fails_with_the_cause(broker: Broker, topic: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(settings(broker, topic)) as member, AsyncConsumer(settings(broker, topic)) as alone:
            member.subscribe(topic)
            await wait(member, member.assignment)
            alone.assign([(topic, 0)])
            with pytest.raises(CommitFailedError, match="is none of them"):
                await alone.commit({TopicPartition(topic, 0): 1})

    run(main())


def test_poll_arrow(broker: Broker, topic: str) -> None:
    produce(broker, topic, 30)

    async def main() -> None:
        async with AsyncConsumer(settings(broker, topic)) as consumer:
            consumer.assign([(topic, number) for number in range(3)])
            rows = 0
            while rows < 30:
                table = await consumer.poll_arrow()
                rows += 0 if table is None else table.num_rows
            assert rows == 30

    run(main())


def test_closing_takes_no_longer_than_it_may_though_nobody_takes_the_commit() -> None:
    """Else it would be tried for default.api.timeout.ms, which is longer than this test may take."""

    async def work() -> None:
        with Broker({"group.initial.rebalance.delay.ms": 0}) as gone:
            with Admin(gone.bootstrap_servers) as admin:
                admin.create_topic("t", 1)
            produce(gone, "t", 10, partitions=1)
            consumer = AsyncConsumer(settings(gone, "g") | {"default.api.timeout.ms": 3_600_000})
            consumer.subscribe("t")
            while not await consumer.poll():
                pass
        await consumer.close(timeout=0.2)

    run(work())
