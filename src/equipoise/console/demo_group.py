"""The second act of the demo: three stock consumers share a topic, one goes, and the journal says what that meant."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.console.words import explain
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.journal import Rebalance
from equipoise.wire.errors import EquipoiseError

GROUP = "orders-etl"
_PATIENCE = 30.0


class _Member:
    """A confluent-kafka consumer in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        from confluent_kafka import Consumer

        self.partitions = 0
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "client.id": f"consumer-{number}"}
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self.partitions = len(partitions)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self.partitions = 0

    def _work(self) -> None:
        while not self._leaving.is_set():
            self._consumer.consume(1000, timeout=0.05)
        self._consumer.close()

    def leave(self) -> None:
        self._leaving.set()
        self._thread.join()


def show_group(broker: Broker, topic: str, say: Callable[[str], None]) -> None:
    members = [_Member(broker.bootstrap_servers, topic, number) for number in (1, 2, 3)]
    try:
        _wait_for(members, 2)
        _wait(lambda: broker.call(_all_heartbeats_held), "the members' heartbeats are not held")
        say(f"Three consumers share {topic!r} as group {GROUP!r}, two partitions each. One of them leaves:")
        members.pop().leave()
        _wait_for(members, 3)
        for line in explain(broker.call(_last_rebalance)):
            say(f"  {line}")
    finally:
        for member in members:
            member.leave()


def _wait_for(members: list[_Member], each: int) -> None:
    _wait(lambda: all(member.partitions == each for member in members), f"not every member has {each} partitions")


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise EquipoiseError(f"{otherwise}, after {_PATIENCE:.0f} s")
        time.sleep(0.01)


def _all_heartbeats_held(server: Server) -> bool:
    """From then on news reaches the members in a round trip; before, with their next heartbeat."""
    return all(member.held_heartbeat is not None for member in _group(server).members.values())


def _last_rebalance(server: Server) -> Rebalance:
    return _group(server).journal.entries[-1]


def _group(server: Server) -> Group:
    return server.groups.shard_of(GROUP).core.groups[GROUP]
