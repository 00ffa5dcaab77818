"""Consumers of one group, each polling in a thread, and a ledger that notes at every moment who owns what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from equipoise import Consumer, RebalanceListener, SubscriptionPattern, TopicPartition
from equipoise.client import Connection
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.client.writing import Reachable

SECONDS = 60.0
QUICK = {"auto.offset.reset": "earliest", "retry.backoff.max.ms": 100, "metadata.max.age.ms": 1_000}


def until(holds: Callable[[], object], seconds: float = SECONDS) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


class Ledger:
    """Who owns which partition between on_assigned and the end of on_revoked or on_lost. Nobody may own what another
    one owns, unless that one has lost it (`forgive`)."""

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self.twice: list[str] = []
        self.forgiven: set[str] = set()
        self._lock = threading.Lock()

    def take(self, name: str, partitions: Any) -> None:
        with self._lock:
            for one in partitions:
                other = self.owners.get(one)
                if other not in (None, name) and other not in self.forgiven:
                    self.twice.append(f"{one}: {other} and {name}")
                self.owners[one] = name

    def give(self, name: str, partitions: Any) -> None:
        with self._lock:
            for one in partitions:
                if self.owners.get(one) == name:
                    del self.owners[one]


class Running(RebalanceListener):
    """A consumer in its thread."""

    def __init__(self, name: str, consumer: Consumer, ledger: Ledger) -> None:
        self.name = name
        self.consumer = consumer
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []
        self.records: list[tuple[str, int, int]] = []
        self.failures: list[Exception] = []
        self.in_revoked: Callable[[], None] = lambda: None
        self.is_paused = threading.Event()
        self._ledger = ledger
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Running:
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stops.is_set():
            if self.is_paused.is_set():
                time.sleep(0.01)
                continue
            try:
                for one in self.consumer.poll(0.1):
                    self.records.append((one.topic, one.partition, one.offset))
            except Exception as error:  # noqa: BLE001 - the test looks at them
                self.failures.append(error)
                time.sleep(0.05)

    def on_assigned(self, consumer: Any, added: Any) -> None:
        self._ledger.take(self.name, added)
        self.told.append(("on_assigned", frozenset(added)))

    def on_revoked(self, consumer: Any, removed: Any) -> None:
        self.told.append(("on_revoked", frozenset(removed)))
        self.in_revoked()
        self._ledger.give(self.name, removed)

    def on_lost(self, consumer: Any, lost: Any) -> None:
        self.told.append(("on_lost", frozenset(lost)))
        self._ledger.give(self.name, lost)

    @property
    def owns(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]

    def stop(self) -> None:
        """Without a word to the group."""
        self._stops.set()
        if self._thread.is_alive():
            self._thread.join(SECONDS)

    def close(self) -> None:
        self.stop()
        self.consumer.close()


class Readers:
    """The consumers of a test."""

    def __init__(self, broker: Reachable, group_id: str) -> None:
        self.broker, self.group_id = broker, group_id
        self.ledger = Ledger()
        self._stack = ExitStack()

    def add(self, name: str, *topics: str, regex: str | None = None, **settings: object) -> Running:
        given = {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "group.id": self.group_id,
            "group.protocol": "consumer",
            **QUICK,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        running = Running(name, Consumer(given), self.ledger)
        self._stack.callback(running.close)
        running.consumer.subscribe(list(topics) if regex is None else SubscriptionPattern(regex), running)
        return running.start()

    def remove(self, member_id: str) -> None:
        """As an administrator."""
        with _connect(self.broker) as connection:
            answer = connection.send(
                LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=member_id)]),
                LeaveGroupResponse,
            )
        assert answer.error_code == 0
        assert [row.error_code for row in answer.members] == [0]


def _connect(broker: Reachable) -> Connection:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Connection(host, int(port), client_id="admin", timeout=10.0)


@contextmanager
def readers(broker: Reachable, group_id: str) -> Iterator[Readers]:
    """A group whose members are closed at the end, and in which nothing was owned twice."""
    made = Readers(broker, group_id)
    with made._stack:
        yield made
    assert made.ledger.twice == [], made.ledger.twice
