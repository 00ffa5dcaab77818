"""The same reader on Apache Kafka: records of all codecs, transactions, deleted records, a broker that restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.member.partitions import TopicPartition
from equipoise.wire.records.batch import Codec
from proving.brokers import SOON_BACK, KafkaBroker
from tests.client.reader import offsets_of, reader, run
from tests.client.records import numbered, produce
from tests.client.test_fetcher import delete_before

pytestmark = pytest.mark.kafka


def create(kafka: KafkaBroker, topic: str, partitions: int = 1) -> None:
    with Admin(kafka.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, replication_factor=1)


def test_every_record_of_every_codec_once_and_in_order(kafka: KafkaBroker) -> None:
    async def main() -> None:
        async with reader(kafka.bootstrap_servers) as mine:
            partitions = mine.assign("fetch-codecs", range(len(Codec)))
            taken = await mine.take(len(Codec) * 1000)
            for partition in partitions:
                assert offsets_of(taken, partition) == list(range(1000))
            assert {one.value for one in taken} == {one.value for one in numbered(1000, 40)}

    create(kafka, "fetch-codecs", len(Codec))
    for codec in Codec:
        produce(kafka.bootstrap_servers, "fetch-codecs", codec, numbered(1000, 40), codec=codec)
    run(main())


def test_positions_by_time_and_policy(kafka: KafkaBroker) -> None:
    async def main() -> None:
        async with reader(kafka.bootstrap_servers, auto_offset_reset="earliest") as mine:
            (partition,) = mine.assign("fetch-times", [0], None)
            found = await mine.fetcher.list_offsets({partition: numbered(10)[4].timestamp})
            assert found == {partition: 4}
            ends = [await mine.fetcher.list_offsets({partition: which}) for which in (EARLIEST, LATEST)]
            assert ends == [{partition: 0}, {partition: 10}]
            await asyncio.to_thread(delete_before, kafka.bootstrap_servers, "fetch-times", 6)
            mine.subscriptions.seek(partition, 2)  # gone: reset to the earliest
            assert offsets_of(await mine.take(4), partition) == [6, 7, 8, 9]

    create(kafka, "fetch-times")
    produce(kafka.bootstrap_servers, "fetch-times", 0, numbered(10))
    run(main())


def transact(producer: Producer, topic: str, values: Iterable[str], *, commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.flush()
    (producer.commit_transaction if commit else producer.abort_transaction)()


@pytest.mark.parametrize("as_table", [False, True])
def test_read_committed_sees_neither_aborted_nor_open_transactions(kafka: KafkaBroker, as_table: bool) -> None:
    topic = f"fetch-transactions-{as_table}"

    async def values(isolation_level: str, count: int) -> list[str]:
        async with reader(kafka.bootstrap_servers, isolation_level=isolation_level) as mine:
            (partition,) = mine.assign(topic, [0])
            if as_table:
                found = (await mine.take_arrow(count))["value"].to_pylist()
            else:
                found = [one.value for one in await mine.take(count)]
            if isolation_level == "read_committed":
                await mine.until(lambda: mine.subscriptions.lag(partition, committed_only=True) == 0)
            return [value.decode() for value in found if value is not None]

    async def main() -> None:
        committed = [f"a{at}" for at in range(50)] + [f"c{at}" for at in range(50)]
        everything = committed[:50] + [f"b{at}" for at in range(50)] + committed[50:] + ["open"]
        assert await values("read_committed", 100) == committed
        assert await values("read_uncommitted", 151) == everything
        producer.commit_transaction()
        assert await values("read_committed", 101) == [*committed, "open"]

    create(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    transact(producer, topic, [f"a{at}" for at in range(50)], commit=True)
    transact(producer, topic, [f"b{at}" for at in range(50)], commit=False)
    transact(producer, topic, [f"c{at}" for at in range(50)], commit=True)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    run(main())


def test_a_broker_that_is_killed_and_comes_back() -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, max_partition_fetch_bytes=1000) as mine:
            partitions = mine.assign("fetch-restart", range(2))
            taken = await mine.take(200)
            broker.kill()
            await asyncio.to_thread(broker.start)
            taken += await mine.take(2000 - len(taken))
            for partition in partitions:
                assert offsets_of(taken, partition) == list(range(1000))

    with KafkaBroker(SOON_BACK) as broker:
        create(broker, "fetch-restart", 2)
        for number in range(2):
            produce(broker.bootstrap_servers, "fetch-restart", number, numbered(1000), per_batch=50)
        run(main(), 120)


def test_a_topic_made_while_it_is_waited_for(kafka: KafkaBroker) -> None:
    async def main() -> None:
        async with reader(kafka.bootstrap_servers, allow_auto_create_topics=False) as mine:
            (partition,) = mine.assign("fetch-later", [0])
            await mine.until(lambda: mine.cluster.nodes)
            await asyncio.to_thread(create, kafka, "fetch-later")
            await asyncio.to_thread(produce, kafka.bootstrap_servers, "fetch-later", 0, numbered(3))
            assert offsets_of(await mine.take(3), partition) == [0, 1, 2]
            assert mine.subscriptions.position(TopicPartition("fetch-later", 0)) == 3

    run(main())
