"""Looks at the demo's broker several times a second: owners of partitions, and the group's progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.console.demo.members import GROUP
from equipoise.console.demo.orders import TOPIC
from equipoise.coordinator.journal import Rebalance

_STEP_S = 0.2


class Sighting(NamedTuple):
    """`owners`: the client id of each partition's member."""

    at: float
    owners: dict[int, str]
    lag: int


class Watch:
    """Looks in a thread while `watching` lasts. Times are seconds since its start."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._begun = time.time()
        self.looks: list[Sighting] = [Sighting(0.0, {}, 0)]
        self.events: list[tuple[float, str]] = []

    @property
    def last(self) -> Sighting:
        """The newest look at the group."""
        return self.looks[-1]

    def now(self) -> float:
        """Seconds since the start, as `looks` and `events` have them."""
        return time.time() - self._begun

    def note(self, event: str) -> None:
        """Puts an event of the play on the picture's time axis."""
        self.events.append((self.now(), event))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks from time to time until the block ends."""
        ending = threading.Event()
        thread = threading.Thread(target=self._look, args=(ending,), name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()

    def _look(self, ending: threading.Event) -> None:
        while not ending.wait(_STEP_S):
            owners = self._broker.groups[GROUP].owners if GROUP in self._broker.groups else {}
            lag = sum(self._broker.topics[TOPIC].end_offsets) - self._broker.call(_committed)
            self.looks.append(Sighting(self.now(), {number: owner for (_, number), owner in owners.items()}, lag))

    def rebalances(self) -> list[tuple[float, Rebalance]]:
        """Each rebalance with its start."""
        return [(entry.started / 1000 - self._begun, entry) for entry in self._broker.groups[GROUP].rebalances]


def _committed(server: Server) -> int:
    return sum(one.offset for _, _, one in server.group_coordinator.shard_of(GROUP).core.offsets.of_group(GROUP))
