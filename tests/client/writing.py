"""Records for consumers to read."""

from __future__ import annotations

from typing import Any, Protocol

from confluent_kafka import Producer


class Reachable(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


def produce(broker: Reachable, topic: str, count: int, *, partitions: int = 3, first_timestamp: int = 0) -> None:
    """In turn to each partition; with timestamps that go up by one, if a first is given."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "log_level": 0})
    for number in range(count):
        extra: dict[str, Any] = {"timestamp": first_timestamp + number} if first_timestamp else {}
        producer.produce(topic, str(number).encode(), partition=number % partitions, **extra)
    assert producer.flush(120) == 0


def produce_keys(broker: Reachable, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 1, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"", key=f"key-{number % 10}".encode())
    assert producer.flush(120) == 0
