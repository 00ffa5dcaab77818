"""aiokafka: a client for asyncio. Each step runs in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import for_code

from tests.interop.drivers.base import PATIENCE_S, Deadline, Driver
from tests.interop.records import Record, by_place, with_key_or_value

Result = TypeVar("Result")


class AioKafka(Driver):
    name = "aiokafka"
    lacks: ClassVar[Mapping[str, str]] = {
        "null key and value": "AIOKafkaProducer.send refuses a record that has neither",
    }

    def with_admin(self, use: Callable[[AIOKafkaAdminClient], Awaitable[Result]]) -> Result:
        async def run() -> Result:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
            await admin.start()
            try:
                return await use(admin)
            finally:
                await admin.close()

        return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    def with_producer(self, use: Callable[[AIOKafkaProducer], Awaitable[Result]], **settings: object) -> Result:
        async def run() -> Result:
            async with AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, **settings) as producer:
                return await use(producer)

        return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    def with_consumer(self, use: Callable[[AIOKafkaConsumer], Awaitable[Result]], **settings: object) -> Result:
        async def run() -> Result:
            async with AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap_servers, enable_auto_commit=False, fetch_max_wait_ms=50, **settings
            ) as consumer:
                return await use(consumer)

        return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    def create_topic(self, topic: str, partitions: int) -> None:
        response = self.with_admin(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1)]))
        _raise_for(response.topic_errors)

    def count_partitions(self, topic: str) -> int | None:
        topics = self.with_admin(lambda admin: admin.describe_topics())
        return next((len(row["partitions"]) for row in topics if row["topic"] == topic), None)

    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        async def send_all(producer: AIOKafkaProducer) -> list[int]:
            sent = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return [told.offset for told in await asyncio.gather(*sent)]

        offsets = self.with_producer(
            send_all,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            max_batch_size=65536,
            acks="all",
            enable_idempotence=idempotent,
        )
        assert offsets == [record.offset for record in records]

    def consume(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        places = [TopicPartition(topic, partition) for partition in starts]

        async def read_all(consumer: AIOKafkaConsumer) -> list[Record]:
            records, deadline = [], Deadline("consume")
            consumer.assign(places)
            for place in places:
                consumer.seek(place, starts[place.partition])
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                deadline.check()
                for batch in (await consumer.getmany(timeout_ms=200, max_records=5000)).values():
                    records += [
                        Record(m.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in batch
                    ]
            return records

        return by_place(self.with_consumer(read_all))

    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        asked = {TopicPartition(topic, partition): timestamp for partition in range(partitions)}
        found = self.with_consumer(lambda consumer: consumer.offsets_for_times(asked))
        return {place.partition: None if one is None else one.offset for place, one in found.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        response = self.with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))
        _raise_for(response.topic_errors)

    def delete_topic(self, topic: str) -> None:
        response = self.with_admin(lambda admin: admin.delete_topics([topic]))
        _raise_for(response.topic_error_codes)

    def writable(self, record: Record) -> Record:
        return with_key_or_value(record)


def _raise_for(rows: Sequence[tuple[object, ...]]) -> None:
    """aiokafka's admin client leaves the error codes of single topics to its caller."""
    for _, code, *message in rows:
        if code:
            raise for_code(code)(*message)
