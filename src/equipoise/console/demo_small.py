"""`equipoise demo --without-spark`: broker, log and groups in ten seconds, with a client we did not write."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equipoise.broker import Broker
from equipoise.console.demo_group import show_group
from equipoise.wire.errors import EquipoiseError, UsageError

TOPIC = "orders"
PARTITIONS = 6
RECORDS = 200_000
_PAYLOAD = b"x" * 100
_PATIENCE = 30.0  # seconds without any progress before the demo gives up


def run_small_demo() -> None:
    try:
        client_version = version("confluent-kafka")
    except PackageNotFoundError:
        raise UsageError("the demo needs a stock client: pip install 'equipoise[demo]'") from None
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="equipoise-demo-") as data:
        _Demo(console, data, client_version).run()


class _Demo:
    def __init__(self, console: Console, data: str, client_version: str) -> None:
        self.console = console
        self.data = data
        self.client = f"confluent-kafka {client_version}"
        self.acknowledged: Counter[int] = Counter()

    def run(self) -> None:
        with self.broker("started,") as broker:
            self.create_topic(broker.bootstrap_servers)
            self.produce(broker.bootstrap_servers)
            show_group(broker, TOPIC, self.say)
        with self.broker("stopped, started again on the same directory,") as broker:
            self.consume(broker.bootstrap_servers)
        self.say("Next: [bold]equipoise serve --memory[/bold], and point your own client at it.")

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    @contextmanager
    def broker(self, word: str) -> Iterator[Broker]:
        started = time.perf_counter()
        with Broker(data=self.data) as broker:
            took = (time.perf_counter() - started) * 1000
            self.say(f"Broker {word} ready on {broker.bootstrap_servers} in {took:.0f} ms.")
            yield broker

    @contextmanager
    def progress(self, what: str) -> Iterator[_Bar]:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            yield _Bar(progress, what)

    def create_topic(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(timeout=_PATIENCE)
        self.say(f"{self.client} created topic {TOPIC!r} with {PARTITIONS} partitions.")

    def produce(self, bootstrap: str) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "compression.type": "lz4"})
        started = time.perf_counter()
        with self.progress("producing") as bar:
            for number in range(RECORDS):
                while True:
                    try:
                        producer.produce(TOPIC, b"%d:" % number + _PAYLOAD, str(number), on_delivery=self.delivered)
                        break
                    except BufferError:  # the client's own queue is full
                        producer.poll(0.1)
                if number % 1000 == 0:
                    producer.poll(0)
                    bar.show(self.acknowledged.total())
            if producer.flush(_PATIENCE):
                raise EquipoiseError(f"{RECORDS - self.acknowledged.total()} records were not acknowledged")
        self.report("acknowledged, each after a flush to disk (acks=all)", started)

    def delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()] += 1

    def consume(self, bootstrap: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        seen: set[int] = set()
        started = last = time.perf_counter()
        with self.progress("consuming") as bar:
            while len(seen) < RECORDS and time.perf_counter() - last < _PATIENCE:
                messages = consumer.consume(10_000, timeout=1.0)
                seen.update(_number(message) for message in messages if message.error() is None)
                last = time.perf_counter() if messages else last
                bar.show(len(seen))
        consumer.close()
        if seen != set(range(RECORDS)):
            raise EquipoiseError(f"{RECORDS - len(seen)} of {RECORDS} records did not come back")
        self.report("read back by assignment, none missing, none changed", started)

    def report(self, what: str, started: float) -> None:
        seconds = time.perf_counter() - started
        self.say(f"{RECORDS:,} records {what}: {seconds:.1f} s, {RECORDS / seconds:,.0f}/s.")


class _Bar:
    def __init__(self, progress: Progress, what: str) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=RECORDS)

    def show(self, done: int) -> None:
        self._progress.update(self._task, completed=done)


def _number(message: Any) -> int:
    """The record's number, if its value is what was sent under its key; -1 shows up as a difference."""
    number, _, payload = message.value().partition(b":")
    return int(number) if payload == _PAYLOAD and message.key() == number else -1
