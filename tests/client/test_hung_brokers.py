"""Brokers that take connections and requests and answer nothing (SIGSTOP): nobody waits for them for ever."""

from __future__ import annotations

import asyncio
import time

import pytest

from equipoise.client import AsyncConsumer, AsyncProducer
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.net.hedging import first_answer, while_in_charge
from equipoise.wire.errors import EquipoiseError, UsageError
from tests.client.fakes import RECORDS, TOPIC, FakeCluster
from tests.client.reader import Reader, offsets_of, run
from tests.client.test_fetcher_moves import play

LIMIT_S = 15.0  # for others who have the processors; a request is given up after 30


def test_metadata_comes_from_another_broker() -> None:
    """Also to a client that has asked nobody before."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        began = time.monotonic()
        fake.hung = {1, 2, 3}
        (partition,) = mine.assign(TOPIC, [0])
        await mine.until(lambda: fake.held)
        asked = fake.held[0]
        fake.leaders[0] = (asked % 3 + 1, 0)
        fake.hung = {asked}
        assert offsets_of(await mine.take(RECORDS), partition) == list(range(RECORDS))
        fake.hung = {2}
        await mine.cluster.refresh()
        fake.hung = {3}
        await mine.cluster.refresh()
        assert time.monotonic() - began < LIMIT_S

    play(main, FakeCluster(nodes=3))


def test_a_hung_leader_is_left_for_the_one_that_leads_now() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        hung, other = mine.assign(TOPIC, [0, 1])
        taken = await mine.take(2 * RECORDS)
        fake.hung = {1}
        began = time.monotonic()
        fake.leaders = {0: (2, 1), 1: (2, 1)}
        fake.logs = {number: [0] * RECORDS + [1] * 5 for number in range(2)}
        taken += await mine.take(10)
        assert offsets_of(taken, hung) == offsets_of(taken, other) == list(range(RECORDS + 5))
        assert time.monotonic() - began < LIMIT_S

    play(main, FakeCluster(nodes=3, partitions=2))


def test_records_go_to_the_one_that_leads_now() -> None:
    """Each once and in order, as soon as the others know the new leader: no record waits for request.timeout.ms."""

    async def main() -> None:
        async with (
            FakeCluster(nodes=3, partitions=2) as fake,
            AsyncProducer({"bootstrap.servers": fake.bootstrap_servers, "linger.ms": 0}) as producer,
        ):
            await (await producer.send(TOPIC, b"0", partition=0))
            fake.hung = {1}
            began = time.monotonic()
            sent = [await producer.send(TOPIC, b"%d" % number, partition=0) for number in range(1, 20)]
            sent += [await producer.send(TOPIC, b"other", partition=1)]
            while not fake.held:
                await asyncio.sleep(0.01)
            fake.leaders = {0: (2, 1), 1: (3, 1)}
            for one in sent:
                await one
            assert time.monotonic() - began < LIMIT_S
            assert fake.stored == {0: [b"%d" % number for number in range(20)], 1: [b"other"]}

    run(main())


def test_a_leader_that_hangs_is_waited_for_as_long_as_it_leads() -> None:
    async def main() -> None:
        async with (
            FakeCluster(nodes=3) as fake,
            AsyncProducer({"bootstrap.servers": fake.bootstrap_servers, "linger.ms": 0}) as producer,
        ):
            await (await producer.send(TOPIC, b"0", partition=0))
            fake.hung = {1}
            sent = await producer.send(TOPIC, b"1", partition=0)
            asked = fake.metadata_requests
            while fake.metadata_requests < asked + 2:  # others were asked who leads, and it does
                await asyncio.sleep(0.01)
            fake.hung = set()
            assert (await sent).offset == 1
            assert fake.stored == {0: [b"0", b"1"]}

    run(main())


def test_positions_are_looked_up_at_the_one_that_leads_now_and_nobody_waits_for_the_other() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.leaders = {0: (1, 0), 1: (2, 0)}
        mine.cluster.subscribe_topics([TOPIC])
        await mine.cluster.refresh()
        fake.hung = {1}
        began = time.monotonic()
        hung, other = mine.assign(TOPIC, [0, 1])
        assert offsets_of(await mine.take(RECORDS), other) == list(range(RECORDS))
        fake.leaders[0] = (2, 1)
        assert offsets_of(await mine.take(RECORDS), hung) == list(range(RECORDS))
        assert time.monotonic() - began < LIMIT_S

    play(main, FakeCluster(nodes=3, partitions=2))


def test_a_coordinator_that_hangs_is_left_for_the_one_that_others_name() -> None:
    async def whole() -> None:
        async with FakeCluster(nodes=3) as fake:
            consumer = AsyncConsumer(bootstrap_servers=fake.bootstrap_servers, group_id="g", enable_auto_commit=False)
            assert await consumer.committed((TOPIC, 0)) == {}
            fake.hung, fake.finds = {1}, 0
            began = time.monotonic()
            asking = asyncio.create_task(consumer.committed((TOPIC, 0)))
            while not fake.finds:  # it has heard of the one that hangs
                await asyncio.sleep(0.01)
            fake.coordinator = 2
            assert await asking == {}
            assert time.monotonic() - began < LIMIT_S
            await consumer.close()

    run(whole())


def test_the_next_is_asked_when_one_fails_or_is_silent() -> None:
    asked: list[str] = []

    async def answering(name: str, after: float, error: Exception | None = None) -> str:
        asked.append(name)
        await asyncio.sleep(after)
        if error is not None:
            raise error
        return name

    async def whole() -> None:
        silent, failing = (lambda: answering("silent", 3600)), (lambda: answering("failing", 0, EquipoiseError("no")))
        quick = lambda: answering("quick", 0)  # noqa: E731
        assert await first_answer([silent, failing, quick], 0.01) == "quick"
        assert asked == ["silent", "failing", "quick"]
        assert await first_answer([quick, silent], 0.01) == "quick"
        with pytest.raises(KafkaConnectionError, match="no; no"):
            await first_answer([failing, failing], 0.01)
        with pytest.raises(UsageError, match="alone"):
            await first_answer([lambda: answering("alone", 0, UsageError("alone"))], 0.01)
        assert len(asyncio.all_tasks()) <= 2  # those that lost are gone

    run(whole())


def test_work_that_is_in_vain_is_given_up() -> None:
    looks: list[float] = []

    async def look() -> str | None:
        looks.append(1)
        return "it is in vain" if len(looks) == 3 else None

    async def whole() -> None:
        with pytest.raises(KafkaConnectionError, match="it is in vain"):
            await while_in_charge(asyncio.sleep(3600), look, 0.01, 0.01)
        assert len(looks) == 3
        assert await while_in_charge(asyncio.sleep(0, "done"), look, 60, 60) == "done"

        is_looking = asyncio.Event()

        async def look_long() -> str | None:
            is_looking.set()
            await asyncio.sleep(3600)
            return None

        async def work() -> str:
            await is_looking.wait()
            return "done"

        assert await while_in_charge(work(), look_long, 0.01, 0.01) == "done"

    run(whole())
