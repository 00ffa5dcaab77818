"""The load: records produced and fetched with confluent-kafka, and what both sides spent on them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess

MAX_BYTES = 256_000_000  # or as many seconds as it is told, so that a bench ends in time on any machine
_AT_A_TIME = 10_000
_PATIENCE = 20.0
Client = dict[str, object]
_PIECES, _PIECES_A_SYNC = 128, 8

PRODUCER = {
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 131_072,
    "delivery.report.only.error": True,
}
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # With its defaults librdkafka rests for a second when 100,000 records lie ready, and for half a one at the end.
    "fetch.queue.backoff.ms": 1,
    "fetch.wait.max.ms": 10,
}


@dataclass
class Sample:
    """One measurement. A record counts with the bytes of its value."""

    bytes: int = 0
    seconds: float = 0.0
    server_cpu: float = 0.0
    client_cpu: float = 0.0

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds

    @property
    def server_ms_per_mb(self) -> float:
        return self.server_cpu * 1e9 / self.bytes

    @property
    def client_ms_per_mb(self) -> float:
        return self.client_cpu * 1e9 / self.bytes


def produce(broker: BrokerProcess, topic: str, size: int, seconds: float, client: Client | None = None) -> Sample:
    """Records of `size` random bytes, with librdkafka's own batching and acks=all, until all are acknowledged."""
    failures: list[object] = []
    producer = Producer(PRODUCER | _reach(broker, client) | {"on_delivery": lambda error, _: failures.append(error)})
    producer.list_topics(topic, timeout=_PATIENCE)
    value = os.urandom(size)
    with _measuring(broker) as sample:
        deadline = time.perf_counter() + seconds
        while sample.bytes < MAX_BYTES and _goes_on(sample, deadline):
            sample.bytes += size * _enqueue(producer, topic, value)
        left = producer.flush(_PATIENCE)
    if failures or left:
        reason = failures[0] if failures else f"no answer within {_PATIENCE:g} s"
        raise EquipoiseError(f"{broker.name}: {len(failures) + left} records were not produced: {reason}")
    return sample


def _reach(broker: BrokerProcess, client: Client | None) -> Client:
    """Settings by which a client connects: those given, or plain text."""
    return client or {"bootstrap.servers": broker.bootstrap_servers}


def _enqueue(producer: Producer, topic: str, value: bytes) -> int:
    """Hands over a thousand records, or as many as there is room for; their number."""
    for count in range(1000):
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.01)
            return count
    producer.poll(0)
    return 1000


def fetch(broker: BrokerProcess, topic: str, seconds: float, client: Client | None = None) -> Sample:
    """What the broker has kept of `topic`, from the beginning, by assignment; again and again if it is little."""
    consumer = Consumer(CONSUMER | _reach(broker, client))
    try:
        partitions = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
        kept = [_kept(consumer, topic, partition) for partition in partitions]
        with _measuring(broker) as sample:
            deadline = time.perf_counter() + seconds
            while sample.bytes < MAX_BYTES and _goes_on(sample, deadline):
                _read_once(consumer, kept, sample, deadline)
    finally:
        consumer.close()
    return sample


def _goes_on(sample: Sample, deadline: float) -> bool:
    """The first records may be late."""
    now = time.perf_counter()
    return now < deadline or (not sample.bytes and now < deadline + _PATIENCE)


def _kept(consumer: Consumer, topic: str, partition: int) -> tuple[TopicPartition, int]:
    """Where to begin, and how many records there are."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE)
    return TopicPartition(topic, partition, low), high - low


def _read_once(consumer: Consumer, kept: list[tuple[TopicPartition, int]], sample: Sample, deadline: float) -> None:
    consumer.assign([begin for begin, _ in kept])
    left = sum(count for _, count in kept)
    while left and _goes_on(sample, deadline):
        messages = consumer.consume(min(left, _AT_A_TIME), timeout=0.2)
        failure = next(filter(None, map(methodcaller("error"), messages)), None)
        if failure is not None:
            raise EquipoiseError(f"a fetch failed: {failure}")
        left -= len(messages)
        sample.bytes += sum(map(len, messages))


def write_alone(path: Path) -> float:
    """CPU in ms/MB of a program that only writes a file and makes it durable."""
    piece = os.urandom(1_000_000)
    began = time.process_time()
    with open(path, "wb", buffering=0) as file:
        for number in range(_PIECES):
            file.write(piece)
            if number % _PIECES_A_SYNC == 0:
                os.fdatasync(file.fileno())
    return (time.process_time() - began) * 1e3 / _PIECES


@contextmanager
def _measuring(broker: BrokerProcess) -> Iterator[Sample]:
    sample = Sample()
    server_cpu, client_cpu, began = broker.cpu_seconds(), time.process_time(), time.perf_counter()
    yield sample
    sample.seconds = time.perf_counter() - began
    sample.server_cpu = broker.cpu_seconds() - server_cpu
    sample.client_cpu = time.process_time() - client_cpu
    if not sample.bytes:
        raise EquipoiseError(f"{broker.name} let no record through in {sample.seconds:.1f} s")
