"""Rebalances of stock confluent-kafka members: how long until the last of them has its new assignment."""

from __future__ import annotations

import random
import threading
import time
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from equipoise.wire.errors import EquipoiseError

MEMBERS = 8
PARTITIONS = 16  # of the topic
_HEARTBEAT_SECONDS = 3.0  # librdkafka's default interval
_PATIENCE = 60.0


class Rebalances(NamedTuple):
    """Seconds of each rebalance."""

    joins: list[float]
    leaves: list[float]


class _Member:
    """A consumer that polls in a thread of its own."""

    def __init__(self, group: _Group, settings: dict[str, Any]) -> None:
        self.owned: set[int] = set()
        self.leaves_at = 0.0
        self._group = group
        self._consumer = Consumer(settings)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe(
            [self._group.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._ending.is_set():
            self._consumer.poll(0.05)
        self.leaves_at = time.perf_counter()
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        with self._group.changed:
            self.owned |= {one.partition for one in partitions}
            self._group.changed.notify_all()

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        with self._group.changed:
            self.owned -= {one.partition for one in partitions}

    def close(self) -> None:
        """Says so; it leaves in its own time."""
        self._ending.set()

    def join_thread(self) -> None:
        self._thread.join(_PATIENCE)


class _Group:
    def __init__(self, bootstrap_servers: str, topic: str, strategy: str) -> None:
        self.topic = topic
        self.changed = threading.Condition()
        self._members: list[_Member] = []
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"stock-{strategy}",
            "partition.assignment.strategy": strategy,
            "log_level": 3,
        }

    def join(self) -> float:
        """Seconds from the start of a new member until all have their share."""
        began = time.perf_counter()
        self._members.append(_Member(self, self._settings))
        return self._shared_at() - began

    def leave(self) -> float:
        """Seconds from the end of a member until the others have its share."""
        member = self._members.pop(0)
        member.close()
        shared_at = self._shared_at()
        member.join_thread()
        return shared_at - member.leaves_at

    def gather(self) -> None:
        self._members += [_Member(self, self._settings) for _ in range(MEMBERS - 1)]
        self._shared_at()

    def close(self) -> None:
        for member in self._members:
            member.close()
        for member in self._members:
            member.join_thread()

    def _shared_at(self) -> float:
        with self.changed:
            if not self.changed.wait_for(self._is_shared, _PATIENCE):
                raise EquipoiseError(f"{len(self._members)} stock members were not done within {_PATIENCE:g} s")
            return time.perf_counter()

    def _is_shared(self) -> bool:
        """Each partition has one owner, and nobody has two more than another."""
        counts = [len(member.owned) for member in self._members]
        everything = set().union(*(member.owned for member in self._members))
        return sum(counts) == len(everything) == PARTITIONS and max(counts) - min(counts) <= 1


def measure_rebalances(bootstrap_servers: str, topic: str, strategy: str, rounds: int) -> Rebalances:
    """One member joins the other seven, then the oldest leaves; each at a moment that heartbeats know nothing of."""
    chance = random.Random(strategy)
    group = _Group(bootstrap_servers, topic, strategy)
    found = Rebalances([], [])
    try:
        group.gather()
        for _ in range(rounds):
            for transition, seconds in ((group.join, found.joins), (group.leave, found.leaves)):
                time.sleep(_HEARTBEAT_SECONDS * (1 + chance.random()))
                seconds.append(transition())
    finally:
        group.close()
    return found
