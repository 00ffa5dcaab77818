"""kafka-python: a client written in Python alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.interop.drivers.base import PATIENCE_S, Deadline, Driver
from tests.interop.records import Record, by_place, with_key_or_value, without_null_headers


class KafkaPython(Driver):
    name = "kafka-python"
    lacks: ClassVar[Mapping[str, str]] = {
        "null header": "KafkaProducer.send refuses a header whose value is not bytes",
        "null key and value": "KafkaProducer.send refuses a record that has neither",
    }

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def create_topic(self, topic: str, partitions: int) -> None:
        self.admin.create_topics({topic: {"num_partitions": partitions}})

    def count_partitions(self, topic: str) -> int | None:
        found = {row["name"]: row["partitions"] for row in self.admin.describe_topics()}
        return len(found[topic]) if topic in found else None

    def producer(self, **settings: object) -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=self.bootstrap_servers, **settings)

    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        producer = self.producer(
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            batch_size=65536,
            enable_idempotence=idempotent,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            producer.flush(PATIENCE_S)
            told = [future.get(PATIENCE_S).offset for future in sent]
        finally:
            producer.close()
        assert told == [record.offset for record in records]

    def consumer(self, **settings: object) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, enable_auto_commit=False, fetch_max_wait_ms=50, **settings
        )

    def consume(self, topic: str, starts: Mapping[int, int], **settings: object) -> list[Record]:
        consumer = self.consumer(**settings)
        records, deadline = [], Deadline("consume")
        try:
            places = [TopicPartition(topic, partition) for partition in starts]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, starts[place.partition])
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                deadline.check()
                for batch in consumer.poll(timeout_ms=200, max_records=5000).values():
                    records += [
                        Record(m.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in batch
                    ]
        finally:
            consumer.close()
        return by_place(records)

    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        consumer = self.consumer()
        try:
            asked = {TopicPartition(topic, partition): timestamp for partition in range(partitions)}
            found = consumer.offsets_for_times(asked)
        finally:
            consumer.close()
        return {place.partition: None if one is None else one.offset for place, one in found.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions({topic: total})

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def writable(self, record: Record) -> Record:
        return without_null_headers(with_key_or_value(record))

    def close(self) -> None:
        self.admin.close()
