"""The cluster as a client sees it: leaders, racks, topics that come and go, brokers that die and come back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, KafkaConnectionError
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.cluster import Cluster, Snapshot
from equipoise.client.metadata.metadata import Leader
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.pool import Purpose
from equipoise.member.partitions import TopicPartition
from equipoise.member.subscription import TopicsOfInterest
from equipoise.wire.apis.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.errors import ErrorCode
from proving.brokers import EquipoiseBroker, KafkaBroker

QUICK = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}


class Seen:
    """What `on_metadata` was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Snapshot, TopicsOfInterest]] = []
        self._news = asyncio.Event()

    def __call__(self, topics: Snapshot, wanted: TopicsOfInterest) -> None:
        self.told.append((topics, wanted))
        self._news.set()

    async def until(self, holds: Callable[[Snapshot, TopicsOfInterest], bool]) -> Snapshot:
        while not self.told or not holds(*self.told[-1]):
            self._news.clear()
            await self._news.wait()
        return self.told[-1][0]


@contextlib.asynccontextmanager
async def cluster(bootstrap_servers: str, **settings: object) -> AsyncIterator[tuple[Cluster, Seen]]:
    seen = Seen()
    config = ConsumerConfig.from_keywords(bootstrap_servers=bootstrap_servers, **(QUICK | settings))
    started = Cluster(config, seen)
    started.start()
    try:
        yield started, seen
    finally:
        await started.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


def test_wanted_topics_are_known_with_leaders_ids_and_racks() -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, seen):
            known.subscribe_topics({"orders"})
            topics = await seen.until(lambda topics, wanted: "orders" in topics)
            assert (topics["orders"].partitions, topics["orders"].is_internal) == (3, False)
            assert topics["orders"].racks == (frozenset({"here"}),) * 3
            assert known.topic_name(topics["orders"].topic_id) == "orders"
            assert known.leader(TopicPartition("orders", 2)) == Leader(1, 0)
            assert known.leader(TopicPartition("orders", 3)) is None
            assert set(topics) == {"orders"}

    with Broker({"broker.rack": "here"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 3)
            admin.create_topic("audit", 1)
        run(main())


def test_all_topics_for_a_pattern(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, seen):
            known.subscribe_topics(None)
            topics = await seen.until(lambda topics, wanted: wanted is None)
            assert set(topics) == {"orders", "audit"}

    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 3)
        admin.create_topic("audit", 1)
    run(main())


def test_a_topic_that_does_not_exist_is_waited_for(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers, allow_auto_create_topics=False) as (known, seen):
            known.subscribe_topics({"later"})
            topics = await seen.until(lambda topics, wanted: wanted == {"later"})
            assert topics == {}
            await asyncio.to_thread(create, broker.bootstrap_servers, "later")
            await seen.until(lambda topics, wanted: "later" in topics)

    run(main())


def create(bootstrap_servers: str, topic: str, partitions: int = 1) -> None:
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(topic, partitions)


def test_subscribing_creates_a_topic_where_both_sides_allow_it(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, seen):
            known.subscribe_topics({"made"})
            await seen.until(lambda topics, wanted: "made" in topics)

    run(main())


def test_a_name_that_no_topic_can_have_is_an_error_for_the_application(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, seen):
            known.subscribe_topics({"no spaces"})
            await seen.until(lambda topics, wanted: bool(wanted))
            assert known.errors["no spaces"].code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(main())


def test_metadata_grows_old(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers, metadata_max_age_ms=20) as (known, seen):
            known.subscribe_topics({"orders"})
            await seen.until(lambda topics, wanted: "orders" in topics)
            await asyncio.to_thread(grow, broker.bootstrap_servers, "orders", 4)
            await seen.until(lambda topics, wanted: topics["orders"].partitions == 4)

    create(broker.bootstrap_servers, "orders")
    run(main())


def grow(bootstrap_servers: str, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers) as admin:
        admin.add_partitions(topic, partitions)


def test_a_refresh_brings_what_is_true_after_the_call(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, _):
            known.subscribe_topics({"orders"})
            await known.refresh()
            for count in (2, 3, 4):
                await asyncio.to_thread(grow, broker.bootstrap_servers, "orders", count)
                await known.refresh()
                assert known.topics["orders"].partitions == count

    create(broker.bootstrap_servers, "orders")
    run(main())


def test_requests_for_a_refresh_are_gathered(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers, retry_backoff_ms=1000) as (known, seen):
            known.subscribe_topics({"orders"})
            await known.refresh()
            before = len(seen.told)
            for _ in range(20):
                known.request_refresh()
                await asyncio.sleep(0)
            await seen.until(lambda topics, wanted: len(seen.told) > before)
            assert len(seen.told) == before + 1

    create(broker.bootstrap_servers, "orders")
    run(main())


def test_the_first_server_that_answers_is_used(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(f"127.0.0.1:1,127.0.0.1:2,{broker.bootstrap_servers}") as (known, _):
            await known.refresh()
            assert list(known.nodes) == [1]

    run(main())


def test_the_reason_is_known_while_nobody_answers() -> None:
    async def main() -> None:
        async with cluster("127.0.0.1:1,127.0.0.1:2") as (known, _):
            waiting = asyncio.create_task(known.refresh())
            while known.last_failure is None:
                await asyncio.sleep(0.005)
            assert not waiting.done()
            waiting.cancel()
            assert isinstance(known.last_failure, KafkaConnectionError)
            assert "cannot connect to 127.0.0.1:1" in str(known.last_failure)
            assert "cannot connect to 127.0.0.1:2" in str(known.last_failure)

    run(main())


def test_each_purpose_has_a_connection_of_its_own(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, _):
            await known.refresh()
            node = known.nodes[1]
            fetch = await known.connection(1, Purpose.FETCH)
            same = await asyncio.gather(*(known.connection(1, Purpose.FETCH) for _ in range(5)))
            assert all(one is fetch for one in same)
            others = [await known.connection(1), await known.coordinator_connection(node.host, node.port)]
            assert len({id(one) for one in (fetch, *others)}) == 3
            with pytest.raises(KafkaConnectionError, match="knows no broker 7"):
                await known.connection(7)

    run(main())


def test_connections_that_nobody_uses_are_closed(broker: Broker) -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers, connections_max_idle_ms=20) as (known, _):
            await known.refresh()
            idle = await known.connection(1, Purpose.FETCH)
            while not idle.is_closed:
                await asyncio.sleep(0.005)
            assert not (await known.connection(1, Purpose.FETCH)).is_closed

    run(main())


def test_a_broker_that_is_killed_is_found_again() -> None:
    async def main() -> None:
        async with cluster(broker.bootstrap_servers) as (known, seen):
            known.subscribe_topics({"orders"})
            await seen.until(lambda topics, wanted: "orders" in topics)
            await known.connection(1, Purpose.FETCH)
            broker.kill()
            known.request_refresh()
            while known.last_failure is None:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(broker.start)
            await known.refresh()
            assert known.last_failure is None
            assert "orders" in known.topics
            await known.connection(1, Purpose.FETCH)

    with EquipoiseBroker() as broker:
        create(broker.bootstrap_servers, "orders")
        run(main())


def test_nothing_is_left_behind_when_it_is_closed_at_any_time(broker: Broker) -> None:
    async def main() -> None:
        for turns in range(12):
            async with cluster(broker.bootstrap_servers) as (known, _):
                known.subscribe_topics(None)
                for _ in range(turns):
                    await asyncio.sleep(0)
        while broker.call(lambda server: len(server.connections)):
            await asyncio.sleep(0.005)

    run(main())


def answer(epoch: int, leader: int, topic_id: bytes = b"A" * 16, rack: bool = True) -> MetadataResponse:
    """Three brokers, of which the third may be away; one topic led by `leader`."""
    brokers = [
        MetadataResponseBroker(node_id=n, host="h", port=n, rack=f"r{n}") for n in ((1, 2, 3) if rack else (1, 2))
    ]
    led = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 3], isr_nodes=[1]
    )
    topic = MetadataResponseTopic(error_code=0, name="t", topic_id=topic_id, partitions=[led])
    return MetadataResponse(brokers=brokers, topics=[topic])


class Told(Cluster):
    """Metadata without brokers."""

    def hear(self, told: MetadataResponse) -> bool:
        self.metadata.update(told)
        return self.metadata.is_settled


def told() -> Told:
    return Told(ConsumerConfig.from_keywords(bootstrap_servers="a:1"))


def test_an_older_leader_epoch_is_not_believed() -> None:
    known, partition = told(), TopicPartition("t", 0)
    assert known.hear(answer(epoch=5, leader=1))
    known.hear(answer(epoch=4, leader=2))
    assert known.leader(partition) == Leader(1, 5)
    known.hear(answer(epoch=6, leader=2))
    assert known.leader(partition) == Leader(2, 6)


def test_a_topic_made_anew_starts_with_new_epochs() -> None:
    known = told()
    known.hear(answer(epoch=5, leader=1))
    known.hear(answer(epoch=0, leader=2, topic_id=b"B" * 16))
    assert known.leader(TopicPartition("t", 0)) == Leader(2, 0)
    assert known.topic_name(b"A" * 16) is None


def test_a_partition_without_leader_is_not_settled() -> None:
    known = told()
    assert not known.hear(answer(epoch=5, leader=-1))
    assert known.topics["t"].partitions == 1
    assert known.leader(TopicPartition("t", 0)) is None


def test_the_rack_of_a_broker_that_is_away_is_remembered() -> None:
    known = told()
    known.hear(answer(epoch=1, leader=1))
    before = known.topics["t"]
    known.hear(answer(epoch=1, leader=1, rack=False))
    assert known.topics["t"] == before
    assert before.racks == (frozenset({"r1", "r3"}),)


def test_pauses_double_up_to_a_bound_and_differ() -> None:
    backoff = Backoff(100, 1_000)
    assert backoff.pause(0) == 0
    for failures, pause in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (99, 1.0)):
        drawn = [backoff.pause(failures) for _ in range(50)]
        assert all(pause * 0.8 <= one <= pause * 1.2 for one in drawn)
        assert len(set(drawn)) > 1


@pytest.mark.kafka
def test_apache_kafka_is_seen_alike(kafka: KafkaBroker) -> None:
    async def main() -> None:
        async with cluster(kafka.bootstrap_servers) as (known, seen):
            known.subscribe_topics({"cluster-seen"})
            topics = await seen.until(lambda topics, wanted: "cluster-seen" in topics)
            assert topics["cluster-seen"].partitions == 3
            assert any(topics["cluster-seen"].topic_id)
            leader = known.leader(TopicPartition("cluster-seen", 0))
            assert leader is not None
            await known.connection(leader.node_id, Purpose.FETCH)

    create(kafka.bootstrap_servers, "cluster-seen", 3)
    run(main())
