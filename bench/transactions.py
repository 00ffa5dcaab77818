"""`python -m bench transactions`: transactions per second beside confluent-kafka and Apache Kafka, and the cost of
exactly-once in the Spark sink."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Any, NamedTuple

from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.client import Admin, Producer
from proving.brokers import STOCK_JVM, BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.fetched import Unavailable

PARTITIONS = 4
VALUE = b"x" * 100
CLIENTS = {"ours": "our producer", "confluent": "confluent-kafka"}
DELIVERIES = "at-least-once", "exactly-once"
NOTES = (
    "One producer, one transaction after the other, records of 100 bytes in 4 partitions. Brokers keep their logs on "
    "disk; Apache Kafka has the JVM of its own start script. A tenth comes before the clock starts.",
    "confluent-kafka has version 1 of transactions, our producer the cluster's, which is 2.",
    "Spark on two cores: a query from topic to topic on our broker, in micro-batches of so many rows. Both deliveries "
    "run in turn, and each begins every other round. A batch is the median of a run, without its first two. CPU is of "
    "all processes, Spark's and the broker's. Each round has a ratio of its two runs; the figure is the median.",
)


class Size(NamedTuple):
    transactions: dict[int, int]  # by records of a transaction: how many of them
    rounds: int
    rows: int  # of a micro-batch
    batches: int
    spark_rounds: int


FULL = Size({1: 300, 100: 200, 10_000: 20}, 3, 100_000, 10, 7)
QUICK = Size({1: 30, 100: 20, 10_000: 3}, 1, 100_000, 6, 2)
Commit = Callable[[int], None]


def figures(size: Size, brokers: list[str]) -> list[Figure]:
    found = [
        Figure(f"{broker}_{client}_{records}", f"{broker}, {title}: {records:,} records each", "1/s")
        for records in size.transactions
        for broker in brokers
        for client, title in CLIENTS.items()
    ]
    found += [Figure(f"spark_{one}", f"Spark, a batch of {size.rows:,} rows, {one}", "s") for one in DELIVERIES]
    found += [Figure(f"spark_cpu_{one}", f"Spark, CPU of such a batch, {one}", "s") for one in DELIVERIES]
    found.append(Figure("spark_ratio", "Spark, exactly-once : at-least-once, time", "ratio", 1.15))
    return [*found, Figure("spark_cpu_ratio", "Spark, exactly-once : at-least-once, CPU", "ratio", 1.15)]


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for some minutes and prints a table, or one JSON object."""
    check_machine("transactions", "pyspark")
    size, makers, missing = QUICK if quick else FULL, _brokers(), ""
    try:
        makers["kafka"]()
    except Unavailable as error:
        missing = str(error)
        del makers["kafka"]
    notes = (*NOTES, *([f"skipped: Apache Kafka ({missing})"] if missing else []))
    results = Results("transactions", figures(size, list(makers)), notes, sizes=size._asdict())
    began = time.perf_counter()
    with progress(size.rounds * len(makers) + 1) as advance:
        for _ in range(size.rounds):
            for name, make in makers.items():
                with make() as broker:
                    _measure(results, name, broker, size)
                advance()
        _measure_spark(results, size)
        advance()
    results.print(as_json, time.perf_counter() - began)


def _brokers() -> dict[str, Callable[[], BrokerProcess]]:
    return {"equipoise": EquipoiseBroker, "kafka": lambda: KafkaBroker(jvm=STOCK_JVM)}


def _measure(results: Results, name: str, broker: BrokerProcess, size: Size) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("values", PARTITIONS)
    for client, opened in (("ours", _ours), ("confluent", _confluent)):
        commit, close = opened(broker.bootstrap_servers)
        for records, count in size.transactions.items():
            for _ in range(max(1, count // 10)):
                commit(records)
            began = time.perf_counter()
            for _ in range(count):
                commit(records)
            results.add(f"{name}_{client}_{records}", count / (time.perf_counter() - began))
        close()


def _ours(bootstrap_servers: str) -> tuple[Commit, Callable[[], object]]:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "ours"})

    def commit(records: int) -> None:
        with producer.transaction():
            for number in range(records):
                producer.send("values", VALUE, partition=number % PARTITIONS)

    return commit, producer.close


def _confluent(bootstrap_servers: str) -> tuple[Commit, Callable[[], object]]:
    from confluent_kafka import Producer as Confluent

    producer = Confluent({"bootstrap.servers": bootstrap_servers, "transactional.id": "confluent", "linger.ms": 5})
    producer.init_transactions()

    def commit(records: int) -> None:
        producer.begin_transaction()
        for number in range(records):
            producer.produce("values", VALUE, partition=number % PARTITIONS)
        producer.commit_transaction()

    return commit, lambda: None


def _measure_spark(results: Results, size: Size) -> None:
    from bench.spark.runs import fill, session

    with EquipoiseBroker() as broker, session([]) as spark:
        fill(broker, "input", 100, size.rows * size.batches, "none")
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("output", PARTITIONS)
        for delivery in DELIVERIES:
            _batches(spark, broker, size, delivery)  # the JVM compiles what runs often
        for round_ in range(size.spark_rounds):
            for delivery in DELIVERIES[:: -1 if round_ % 2 else 1]:
                _measure_run(results, spark, broker, size, delivery)
    for of in ("spark_", "spark_cpu_"):
        plain, exact = (results.values(f"{of}{one}") for one in DELIVERIES)
        results.add(f"{of}ratio", median(ours / theirs for ours, theirs in zip(exact, plain, strict=True)))


def _measure_run(results: Results, spark: Any, broker: BrokerProcess, size: Size, delivery: str) -> None:
    began = _cpu_seconds()
    seconds = _batches(spark, broker, size, delivery)
    results.add(f"spark_cpu_{delivery}", (_cpu_seconds() - began) / len(seconds))
    results.add(f"spark_{delivery}", median(seconds[2:]))


def _cpu_seconds() -> float:
    """Of this process and all that it has started, also of those that have ended."""
    import psutil

    spent = 0.0
    for process in (me := psutil.Process(), *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:4])  # its own and that of children that it has seen end
    return spent


def _batches(spark: Any, broker: BrokerProcess, size: Size, delivery: str) -> list[float]:
    """Seconds of each micro-batch."""
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    source = {"subscribe": "input", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(size.rows)}
    frame = spark.readStream.format("equipoise").options(**servers, **source).load().select("key", "value")
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as scratch:
        writer = frame.writeStream.format("equipoise").options(**servers, topic="output", delivery=delivery)
        query = writer.option("checkpointLocation", scratch).trigger(availableNow=True).start()
        query.awaitTermination()
        return [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress if one["numInputRows"]]
