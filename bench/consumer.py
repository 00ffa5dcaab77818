"""`python -m bench consumer`: records read per second, beside confluent-kafka and kafka-python."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.client import Admin, Connection, Consumer, TopicPartition
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.records.batch import iter_headers
from proving.brokers import BrokerProcess, MemoryBroker

PARTITIONS = 4
_BY_NAME = 12  # the last version of Fetch in which topics go by name
NOTES = (
    "One consumer reads a topic of 4 partitions from the beginning, for so many seconds or to its end, from our broker "
    "in memory, which is another process. Each is warm: a fifth of the time is read before the clock starts. Records "
    "have no key. Rates are of the wall clock; the client's CPU seconds for a million records stand below.",
    "confluent-kafka: consume(10000). kafka-python: poll(max_records=10000). Ours: poll() with max.poll.records=10000, "
    "and poll_arrow() in tables of up to 100,000 records. Views: poll_arrow(views=True), which copies no key or value.",
    "Nothing decoded: a loop on a socket that asks for the same records again and again, two requests under way, and "
    "looks at none of them. It is what broker, loopback and memory give here: no consumer can be faster by the clock.",
    "The ratios are of medians. CPU ratios, the peer's seconds : ours, depend less on what else the machine does. "
    "confluent-kafka does not check CRCs, ours and kafka-python do.",
)


Client = dict[str, object]  # the settings by which it connects
Reads = Generator[int, None, None]  # counts of records, read by read; 0: none came


class Size(NamedTuple):
    rounds: int
    seconds: float
    records: dict[int, int]  # by bytes of a value: how many are there to read


FULL = Size(3, 3.0, {100: 6_000_000, 1000: 1_500_000})
QUICK = Size(1, 0.6, {100: 800_000, 1000: 200_000})


class Reader(NamedTuple):
    key: str
    title: str
    open: Callable[[Client, str], Reads]


def _confluent(client: Client, topic: str) -> Reads:
    from confluent_kafka import Consumer as Confluent
    from confluent_kafka import TopicPartition as Place

    settings = client | {"group.id": "bench", "enable.auto.commit": False}
    # With its default librdkafka rests for a second when 100,000 records lie ready.
    consumer = Confluent(settings | {"fetch.queue.backoff.ms": 1, "log_level": 3})
    try:
        consumer.assign([Place(topic, number, 0) for number in range(PARTITIONS)])
        while True:
            yield sum(message.value() is not None for message in consumer.consume(10_000, 1.0))
    finally:
        consumer.close()


def _kafka_python(client: Client, topic: str) -> Reads:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer: Any = KafkaConsumer(bootstrap_servers=client["bootstrap.servers"])
    try:
        places = [Place(topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        while True:
            found = consumer.poll(timeout_ms=1000, max_records=10_000)
            yield sum(record.value is not None for records in found.values() for record in records)
    finally:
        consumer.close()


def _ours(client: Client, topic: str) -> Consumer:
    consumer = Consumer(client | {"max.poll.records": 10_000})
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    consumer.seek_to_beginning()
    return consumer


def _poll(client: Client, topic: str) -> Reads:
    with _ours(client, topic) as consumer:
        while True:
            yield sum(record.value is not None for record in consumer.poll())


def _poll_arrow(client: Client, topic: str, *, views: bool = False) -> Reads:
    with _ours(client, topic) as consumer:
        while True:
            table = consumer.poll_arrow(views=views)
            yield 0 if table is None else table.num_rows - table.column("value").null_count


def _floor(client: Client, topic: str) -> Reads:
    """The same Fetch over and over, two under way, and no look at the records that come."""
    host, port = str(client["bootstrap.servers"]).rsplit(":", 1)
    partitions = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(PARTITIONS)
    ]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )
    with Connection(host, int(port)) as connection:
        under_way = connection.ask(request, _BY_NAME)
        count = 0
        while True:
            asked, under_way = under_way, connection.ask(request, _BY_NAME)
            answer = connection.answer(asked, FetchResponse)
            count = count or _count(answer)
            yield count


def _count(answer: FetchResponse) -> int:
    found = [one.records for topic in answer.responses for one in topic.partitions]
    return sum(
        header.record_count for data in found if isinstance(data, memoryview) for _, header in iter_headers(data)
    )


READERS = (
    Reader("confluent_kafka", "confluent-kafka", _confluent),
    Reader("kafka_python", "kafka-python", _kafka_python),
    Reader("poll", "ours, poll()", _poll),
    Reader("poll_arrow", "ours, poll_arrow()", _poll_arrow),
    Reader("poll_views", "ours, poll_arrow(views=True)", partial(_poll_arrow, views=True)),
    Reader("floor", "nothing decoded", _floor),
)
_TITLES = {reader.key: reader.title.removeprefix("ours, ") for reader in READERS}
RATIOS = (
    ("arrow", "poll_arrow", "confluent_kafka"),
    ("views", "poll_views", "confluent_kafka"),
    ("poll", "poll", "kafka_python"),
    ("floor", "floor", "confluent_kafka"),
)
_AIMS = {"arrow": 3.0, "views": 3.0, "poll": 5.0}


def figures(size: Size) -> list[Figure]:
    found = []
    for each in size.records:
        found += [Figure(f"{reader.key}_{each}", f"{each} B, {reader.title}", "1/s") for reader in READERS]
        found += [Figure(f"{reader.key}_{each}_cpu", f"{each} B, {reader.title}: CPU", "s/M") for reader in READERS]
        for name, ours, peer in RATIOS:
            title = f"{each} B, {_TITLES[ours]} : {_TITLES[peer]}"
            found.append(Figure(f"{name}_ratio_{each}", title, "times", _AIMS.get(name)))
            found.append(Figure(f"{name}_ratio_{each}_cpu", f"{title}, by CPU", "times"))
    return found


def run_bench(as_json: bool, quick: bool, listener: str | None) -> None:
    """Measures for about two minutes (quick: half of one) and prints a table, or one JSON object."""
    if listener is not None:
        from bench.secured_consumer import run_secured

        run_secured(listener, as_json, quick)
        return
    check_machine("consumer", "kafka", "pyarrow")
    size = QUICK if quick else FULL
    results = Results("consumer", figures(size), NOTES, sizes=size._asdict())
    began = time.perf_counter()
    with MemoryBroker() as broker, progress(len(size.records) * (size.rounds * len(READERS) + 1)) as advance:
        for each, count in size.records.items():
            topic = f"values-of-{each}"
            fill(broker, topic, each, count)
            advance()
            for _ in range(size.rounds):
                for reader in READERS:
                    _measure(results, reader, broker, topic, each, size.seconds)
                    advance()
            _compare(results, each)
    results.print(as_json, time.perf_counter() - began)


def fill(broker: BrokerProcess, topic: str, size: int, count: int) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    produce(broker, topic, size, count)


def produce(broker: BrokerProcess, topic: str, size: int, count: int, partitions: int = PARTITIONS) -> None:
    """Records to all partitions in turn."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.messages": 1_000_000, "linger.ms": 20}
    )
    value = os.urandom(size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise EquipoiseError("the records to be read could not be written within two minutes")


def _measure(results: Results, reader: Reader, broker: BrokerProcess, topic: str, each: int, seconds: float) -> None:
    with closing(reader.open({"bootstrap.servers": broker.bootstrap_servers}, topic)) as reads:
        read(reads, seconds / 5)
        cpu = time.process_time()
        count, took = read(reads, seconds)
        cpu = time.process_time() - cpu
    results.add(f"{reader.key}_{each}", count / took)
    results.add(f"{reader.key}_{each}_cpu", cpu / count * 1e6)


def read(reads: Reads, seconds: float) -> tuple[int, float]:
    """How many, and for how long: until the time is up or nothing comes any more."""
    began = last = time.perf_counter()
    count = 0
    while last - began < seconds:
        found = next(reads)
        if not found and count:
            break
        count, last = count + found, time.perf_counter()
    return count, last - began


def _compare(results: Results, each: int) -> None:
    for name, ours, peer in RATIOS:
        rates = [median(results.values(f"{key}_{each}")) for key in (ours, peer)]
        results.add(f"{name}_ratio_{each}", rates[0] / rates[1])
        cpu = [median(results.values(f"{key}_{each}_cpu")) for key in (ours, peer)]
        results.add(f"{name}_ratio_{each}_cpu", cpu[1] / cpu[0])
