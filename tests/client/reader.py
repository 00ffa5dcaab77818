"""A consumer without a group, on the loop of the test: cluster, positions, fetcher, and ways to wait for records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import pyarrow as pa

from equipoise.client.consumer.config import EARLIEST, ConsumerConfig
from equipoise.client.fetch.fetcher import Fetcher
from equipoise.client.fetch.records import ConsumerRecord
from equipoise.client.fetch.subscription_state import SubscriptionState
from equipoise.client.metadata.cluster import Cluster
from equipoise.member.partitions import TopicPartition

QUICK = {
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
}


def run(main: Coroutine[Any, Any, None], seconds: float = 150) -> None:
    asyncio.run(asyncio.wait_for(main, seconds))


class Reader:
    def __init__(self, config: ConsumerConfig) -> None:
        self.news = asyncio.Event()
        self.cluster = Cluster(config)
        self.subscriptions = SubscriptionState()
        self.fetcher = Fetcher(self.cluster, config, self.subscriptions, self.news.set)
        self.fetch_buffer = self.fetcher.fetch_buffer

    def assign(self, topic: str, numbers: Iterable[int], timestamp: int | None = EARLIEST) -> list[TopicPartition]:
        partitions = [TopicPartition(topic, number) for number in numbers]
        topics = {one.topic for one in self.subscriptions.assigned()} | {topic}
        self.cluster.subscribe_topics(topics)
        self.subscriptions.assign(partitions)
        if timestamp is not None:
            self.subscriptions.request_reset(partitions, timestamp)
        return partitions

    async def take(self, count: int, at_once: int = 500) -> list[ConsumerRecord]:
        """So many records, however long it takes."""
        taken: list[ConsumerRecord] = []
        while len(taken) < count:
            some = self.fetch_buffer.take(min(at_once, count - len(taken)))
            taken += some
            if not some:
                await self._more()
        return taken

    async def take_arrow(self, count: int, at_once: int = 10**9) -> pa.Table:
        tables: list[pa.Table] = []
        while sum(table.num_rows for table in tables) < count:
            table = self.fetch_buffer.take_arrow(at_once)
            if table is None:
                await self._more()
            else:
                tables.append(table)
        return pa.concat_tables(tables)

    async def _more(self) -> None:
        # A look now and then as well: what was paused or held needs no news to be there again.
        self.news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), 0.2)

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def reader(bootstrap_servers: str, **settings: object) -> AsyncIterator[Reader]:
    config = ConsumerConfig.from_keywords(bootstrap_servers=bootstrap_servers, **(QUICK | settings))
    made = Reader(config)
    made.cluster.start()
    made.fetcher.start()
    try:
        yield made
    finally:
        await made.fetcher.close()
        await made.cluster.close()


def offsets_of(records: Iterable[ConsumerRecord], partition: TopicPartition) -> list[int]:
    return [one.offset for one in records if (one.topic, one.partition) == partition]
