"""`python -m bench producer`: records stored per second, beside confluent-kafka and kafka-python."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.client import Admin, Producer
from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess, MemoryBroker

PARTITIONS = 4
_ROWS = 100_000  # in a table
NOTES = (
    "One producer sends records without a key to a topic of 4 partitions of our broker in memory, which is another "
    "process, and waits until all are stored (acks=all). Rates are of the wall clock; the client's CPU seconds for a "
    "million records stand below. Each is warm: a tenth is sent before the clock starts.",
    "confluent-kafka: produce(), with linger.ms=5 and room for all records. kafka-python: send(), linger_ms=5, batches "
    "of up to 1 MB. Ours: send() record by record, and send_arrow() in tables of 100,000 rows, as it is.",
    "The verdict is of the best round of ours against the best of the peer.",
)


class Size(NamedTuple):
    rounds: int
    records: dict[int, int]  # by bytes of a value: how many are sent


FULL = Size(3, {100: 1_000_000, 1000: 300_000})
QUICK = Size(1, {100: 50_000, 1000: 20_000})


class Writer(NamedTuple):
    key: str
    title: str
    share: float  # of the records: a slow one sends fewer
    open: Callable[[str], tuple[Callable[[str, bytes, int], None], Callable[[], object]]]  # sending, and closing


def _confluent(bootstrap_servers: str) -> Any:
    from confluent_kafka import Producer as Confluent

    producer = Confluent({"bootstrap.servers": bootstrap_servers, "queue.buffering.max.messages": 2_000_000})

    def send(topic: str, value: bytes, count: int) -> None:
        for _ in range(count):
            producer.produce(topic, value)
        if producer.flush(120):
            raise EquipoiseError("confluent-kafka has not stored its records within two minutes")

    return send, lambda: None


def _kafka_python(bootstrap_servers: str) -> Any:
    from kafka import KafkaProducer

    producer: Any = KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5, batch_size=1_000_000, acks="all")

    def send(topic: str, value: bytes, count: int) -> None:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()

    return send, producer.close


def _ours(bootstrap_servers: str) -> Any:
    producer = Producer({"bootstrap.servers": bootstrap_servers})

    def send(topic: str, value: bytes, count: int) -> None:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()

    return send, producer.close


def _ours_by_arrow(bootstrap_servers: str) -> Any:
    import pyarrow as pa

    producer = Producer({"bootstrap.servers": bootstrap_servers})
    tables: dict[bytes, Any] = {}

    def send(topic: str, value: bytes, count: int) -> None:
        if value not in tables:
            tables[value] = pa.table({"value": pa.array([value] * _ROWS, pa.binary())})
        for first in range(0, count, _ROWS):
            producer.send_arrow(tables[value].slice(0, min(_ROWS, count - first)), topic)
        producer.flush()

    return send, producer.close


WRITERS = (
    Writer("confluent_kafka", "confluent-kafka", 1.0, _confluent),
    Writer("kafka_python", "kafka-python", 0.2, _kafka_python),
    Writer("send", "ours, send()", 1.0, _ours),
    Writer("send_arrow", "ours, send_arrow()", 4.0, _ours_by_arrow),
)


def figures(size: Size) -> list[Figure]:
    found = []
    for each in size.records:
        found += [Figure(f"{writer.key}_{each}", f"{each} B, {writer.title}", "1/s") for writer in WRITERS]
        found += [Figure(f"{writer.key}_{each}_cpu", f"{each} B, {writer.title}: CPU", "s/M") for writer in WRITERS]
        aims = (2.0, 5.0) if each == 100 else (None, None)
        found.append(Figure(f"arrow_ratio_{each}", f"{each} B, send_arrow() : confluent-kafka", "times", aims[0]))
        found.append(Figure(f"send_ratio_{each}", f"{each} B, send() : kafka-python", "times", aims[1]))
    return found


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for about a minute (quick: a few seconds) and prints a table, or one JSON object."""
    check_machine("producer", "kafka", "pyarrow")
    size = QUICK if quick else FULL
    results = Results("producer", figures(size), NOTES, sizes=size._asdict())
    began = time.perf_counter()
    with progress(len(size.records) * size.rounds * len(WRITERS)) as advance:
        for each, count in size.records.items():
            for _ in range(size.rounds):
                for writer in WRITERS:
                    with MemoryBroker() as broker:  # a new one each time: what is stored stays in its memory
                        _measure(results, writer, broker, each, count)
                    advance()
            _compare(results, each)
    results.print(as_json, time.perf_counter() - began)


def _measure(results: Results, writer: Writer, broker: BrokerProcess, each: int, count: int) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("values", PARTITIONS)
    value, count = os.urandom(each), int(count * writer.share)
    send, close = writer.open(broker.bootstrap_servers)
    try:
        send("values", value, count // 10)
        began, cpu = time.perf_counter(), time.process_time()
        send("values", value, count)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    finally:
        close()
    results.add(f"{writer.key}_{each}", count / took)
    results.add(f"{writer.key}_{each}_cpu", cpu / count * 1e6)


def _compare(results: Results, each: int) -> None:
    best = {writer.key: max(results.values(f"{writer.key}_{each}")) for writer in WRITERS}
    results.add(f"arrow_ratio_{each}", best["send_arrow"] / best["confluent_kafka"])
    results.add(f"send_ratio_{each}", best["send"] / best["kafka_python"])
