"""What the demo's broker knows, some times a second: who has which partition, and how far the group has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.console.demo_members import GROUP
from equipoise.console.demo_orders import TOPIC
from equipoise.coordinator.journal import Rebalance
from equipoise.wire.consumer_protocol import decode_assignment

_STEP_S = 0.2


class Look(NamedTuple):
    """`owners`: by partition, the client id of its member."""

    at: float
    owners: dict[int, str]
    members: frozenset[str]
    lag: int


class Watch:
    """Looks, in a thread, for as long as `watching` lasts. Times are seconds since its begin."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._begun = time.time()
        self.looks: list[Look] = [Look(0.0, {}, frozenset(), 0)]
        self.events: list[tuple[float, str]] = []

    @property
    def last(self) -> Look:
        return self.looks[-1]

    def now(self) -> float:
        return time.time() - self._begun

    def note(self, event: str) -> None:
        self.events.append((self.now(), event))

    @contextmanager
    def watching(self) -> Iterator[None]:
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
            owners, members, lag = self._broker.call(_state)
            self.looks.append(Look(self.now(), owners, members, lag))

    def rebalances(self) -> list[tuple[float, Rebalance]]:
        """Each with its begin."""
        entries = self._broker.call(
            lambda server: list(server.groups.shard_of(GROUP).core.groups[GROUP].journal.entries)
        )
        return [(entry.started / 1000 - self._begun, entry) for entry in entries]


def _state(server: Server) -> tuple[dict[int, str], frozenset[str], int]:
    shard = server.groups.shard_of(GROUP).core
    group = shard.groups.get(GROUP)
    owners: dict[int, str] = {}
    members = [] if group is None else list(group.members.values())
    for member in members:
        if member.assignment:
            found = decode_assignment(member.assignment).assigned_partitions
            owners |= dict.fromkeys(found.get(TOPIC, ()), member.client_id)
    committed = sum(one.offset for _, _, one in shard.offsets.of_group(GROUP))
    ends = sum(partition.log.high_watermark for partition in server.topics.require(TOPIC).partitions)
    return owners, frozenset(member.client_id for member in members), ends - committed
