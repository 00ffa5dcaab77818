"""Producers that never stop, and the ledger of all that was promised to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from equipoise.wire.records.build import Record
from proving.members.confluent_kafka_member import row_of

Place = tuple[str, int, int]  # topic, partition, offset


class Ledger:
    """Every place in a log that was acknowledged or read, with the value that was seen there."""

    def __init__(self) -> None:
        self._seen: dict[Place, bytes] = {}
        self._lock = threading.Lock()

    def note(self, place: Place, value: bytes) -> None:
        with self._lock:
            known = self._seen.setdefault(place, value)
        assert known == value, f"offset used twice: {place} held {known[:40]!r}, now {value[:40]!r}"

    def places(self) -> set[Place]:
        with self._lock:
            return set(self._seen)

    def check(self, found: Iterable[tuple[str, int, list[Record]]], expected: set[Place]) -> None:
        """What is in the log now must hold all of `expected`, and nothing else in a place seen before."""
        present = set()
        for topic, partition, records in found:
            for record in records:
                place = (topic, partition, record.offset)
                self.note(place, record.value or b"")
                present.add(place)
        lost = sorted(expected - present)
        assert not lost, f"{len(lost)} acknowledged records are lost, the first at {lost[0]}"


class Workload:
    """One producer with acks=all that sends unique values to a topic, around all partitions, until told to stop."""

    OUTSTANDING = 60  # messages sent and not yet acknowledged
    BURST = 6

    def __init__(self, address: str, topic: str, partitions: int, ledger: Ledger, *, idempotent: bool) -> None:
        self.topic = topic
        self.partitions = partitions
        self.sent: list[list[bytes]] = [[] for _ in range(partitions)]
        self.acknowledged = 0
        self.failure: BaseException | None = None
        self._ledger = ledger
        self._sending = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer of {topic}")
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": "all",
                "enable.idempotence": idempotent,
                "linger.ms": 2,
                "batch.num.messages": 20,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def resume(self) -> None:
        self._sending.set()

    def pause(self) -> None:
        """Nothing new is sent; what was sent goes on to be tried until it is acknowledged."""
        self._sending.clear()

    def stop(self) -> None:
        """Waits until all that was sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._sending.is_set() and len(self._producer) < self.OUTSTANDING:
                    self._send_burst()
                self._producer.poll(0.02)
            left = self._producer.flush(60)
            assert left == 0, f"{left} messages are still not acknowledged"
        except BaseException as failure:  # noqa: BLE001  it is raised by `check`, in the test's thread
            self.failure = failure

    def _send_burst(self) -> None:
        for _ in range(self.BURST):
            number = sum(map(len, self.sent))
            partition = number % self.partitions
            value = b"%s %d " % (self.topic.encode(), number) + b"." * (number % 100)
            self.sent[partition].append(value)
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"{message.topic()}: {error}"
        self._ledger.note(row_of(message), message.value() or b"")
        self.acknowledged += 1

    def _on_error(self, error: Any) -> None:
        """Broken connections are what this is about; only an error that ends the producer counts."""
        if error.fatal():
            self.failure = AssertionError(f"{self.topic}: {error}")
