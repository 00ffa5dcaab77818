"""Rebalances without end: a member joins and leaves while another commits, and nothing is left behind or skipped."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, CommitFailedError, Consumer, RebalanceInProgressError, RebalanceListener
from tests.client.writing import produce

PARTITIONS = 4
PATIENCE_S = 120.0
WARM = 10  # rebalances until caches are filled
MB = 1_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("t", PARTITIONS)
        yield running


class Reader(RebalanceListener):
    """A member in a thread of its own, which commits after every poll and before it gives anything up."""

    def __init__(self, broker: Broker, strategy: str, read: Counter[tuple[int, int]]) -> None:
        self._settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": strategy,
        }
        self._read = read
        self._ending = threading.Event()
        self.errors: list[Exception] = []
        self.assigned: frozenset[Any] = frozenset()
        self.rebalances = 0
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _live(self) -> None:
        try:
            with Consumer(self._settings) as consumer:
                consumer.subscribe("t", self)
                while not self._ending.is_set():
                    self._step(consumer)
        except Exception as error:  # noqa: BLE001  the test is told
            self.errors.append(error)

    def _step(self, consumer: Consumer) -> None:
        for record in consumer.poll(0.02):
            self._read[record.partition, record.offset] += 1
        self.assigned = consumer.assignment()
        with suppress(RebalanceInProgressError, CommitFailedError):  # then the next owner reads again, from the last
            consumer.commit()

    def on_revoked(self, consumer: Consumer, removed: Any) -> None:
        consumer.commit()

    def on_assigned(self, consumer: Consumer, added: Any) -> None:
        self.rebalances += 1

    def end(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        assert not self.errors, self.errors[0]


def until(what: str, is_so: Any, *readers: Reader) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        for reader in readers:
            assert not reader.errors, reader.errors[0]
        assert time.monotonic() < end, what
        time.sleep(0.002)


def cost() -> tuple[int, int, int]:
    """Threads, descriptors and bytes of this process, in which broker and members live."""
    return threading.active_count(), len(os.listdir("/proc/self/fd")), psutil.Process().memory_info().rss


def _grown(before: tuple[int, int, int]) -> list[int]:
    return [after - earlier for after, earlier in zip(cost(), before, strict=True)]


def rebalance_over_and_over(broker: Broker, strategy: str, times: int) -> None:
    read: Counter[tuple[int, int]] = Counter()
    stays = Reader(broker, strategy, read)
    written = 0
    until(
        "it is alone and has all", lambda: len(stays.assigned) == PARTITIONS, stays
    )  # else two joins are one rebalance
    before = cost()
    for number in range(times):
        if number == WARM:
            before = cost()
        guest = Reader(broker, strategy, read)
        until("the guest has a share", lambda guest=guest: len(guest.assigned) == PARTITIONS // 2, guest, stays)
        produce(broker, "t", PARTITIONS * 5, partitions=PARTITIONS)
        written += 5
        guest.end()
        until("the one that stays has all again", lambda: len(stays.assigned) == PARTITIONS, stays)
    wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(written)}
    until("every record is read", lambda: read.keys() >= wanted, stays)
    until("threads and connections are gone", lambda: _grown(before)[0] <= 2 and _grown(before)[1] <= 6, stays)
    memory = _grown(before)[2]
    assert stays.rebalances >= 2 * times
    stays.end()
    assert read.keys() == wanted
    assert memory < 30 * MB, f"{memory / MB:.1f} MB more after {times} rebalances"


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_thirty_rebalances_leave_nothing_behind(broker: Broker, strategy: str) -> None:
    rebalance_over_and_over(broker, strategy, 15)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_thousand_rebalances_leave_nothing_behind(broker: Broker, strategy: str) -> None:
    rebalance_over_and_over(broker, strategy, 500)
