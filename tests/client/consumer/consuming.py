"""What tests of the blocking consumer share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from equipoise.client import (
    Consumer,
    ConsumerRecord,
    RebalanceListener,
)

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500}
PATIENCE_S = 120.0  # for others who have the processors


class Told(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []

    def on_assigned(self, consumer: Consumer, added: Any) -> None:
        self.events.append(("assigned", {one.partition for one in added}))

    def on_revoked(self, consumer: Consumer, removed: Any) -> None:
        self.events.append(("revoked", {one.partition for one in removed}))

    def on_lost(self, consumer: Consumer, lost: Any) -> None:
        self.events.append(("lost", {one.partition for one in lost}))


def wait(consumer: Consumer, is_so: Callable[[], object], records: list[ConsumerRecord] | None = None) -> None:
    """Polls until it is so."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        found = consumer.poll(0.05)
        if records is not None:
            records += found
        assert time.monotonic() < end, f"not so within {PATIENCE_S:g} s"


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    wait(consumer, lambda: len(records) >= count, records)
    return records


@contextmanager
def polling(*consumers: Consumer) -> Iterator[None]:
    """Others poll in the background meanwhile."""
    ending = threading.Event()

    def run(consumer: Consumer) -> None:
        while not ending.is_set():
            consumer.poll(0.02)

    threads = [threading.Thread(target=run, args=(one,)) for one in consumers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
