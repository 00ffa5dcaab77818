"""confluent-kafka: librdkafka, the client most others are built on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.interop.drivers.base import PATIENCE_S, Deadline, Driver
from tests.interop.records import Record, by_place


class Confluent(Driver):
    name = "confluent-kafka"

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self._open = ExitStack()
        self.admin = self._open.enter_context(AdminClient({"bootstrap.servers": bootstrap_servers}))

    def create_topic(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, num_partitions=partitions)])[topic].result(PATIENCE_S)

    def count_partitions(self, topic: str) -> int | None:
        found = self.admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
        return None if found is None else len(found.partitions)

    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        failures: list[KafkaError] = []

        def report(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        with self.producer(compression_type=codec, linger_ms=20, acks="all", enable_idempotence=idempotent) as producer:
            for record in records:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                    on_delivery=report,
                )
            unsent = producer.flush(PATIENCE_S)
        assert not unsent, f"{unsent} records were not acknowledged"
        if failures:
            raise KafkaException(failures[0])

    def consumer(self, **settings: object) -> Consumer:
        """For reading by assignment; librdkafka wants a group's name even so."""
        return Consumer(self._config(group_id="by-assignment", enable_auto_commit=False, **settings))

    def producer(self, **settings: object) -> Producer:
        return Producer(self._config(**settings))

    def _config(self, **settings: object) -> dict[str, object]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **named}

    def consume(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        consumer = self.consumer(enable_partition_eof=True, fetch_wait_max_ms=50)
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
        unfinished, records, deadline = set(starts), [], Deadline("consume")
        try:
            while unfinished:
                deadline.check()
                for message in consumer.consume(num_messages=5000, timeout=0.2):
                    error = message.error()
                    if error is None:
                        records.append(_record(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    else:
                        raise KafkaException(message.error())
        finally:
            consumer.close()
        return by_place(records)

    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        consumer = self.consumer()
        try:
            asked = [TopicPartition(topic, partition, timestamp) for partition in range(partitions)]
            found = consumer.offsets_for_times(asked, timeout=PATIENCE_S)
        finally:
            consumer.close()
        return {one.partition: one.offset if one.offset >= 0 else None for one in found}

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_S)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def close(self) -> None:
        self._open.close()


def _record(message: Message) -> Record:
    partition, offset, (_, timestamp) = message.partition(), message.offset(), message.timestamp()
    assert partition is not None
    assert offset is not None
    return Record(partition, offset, timestamp, message.key(), message.value(), _headers(message))


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    found: Any = message.headers() or ()
    return tuple(found)
