"""A consumer of librdkafka that closes while it rejoins: its last commit counts.

librdkafka's own test for it is 0113, v_commit_during_rebalance. Of two members one closes. The survivor, whose
heartbeat is held, hears of it at once, rejoins, and closes before it has its assignment.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from equipoise.broker import Broker
from equipoise.broker.handlers import HANDLERS
from equipoise.broker.net.connection import Call
from equipoise.broker.server import Server
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from tests.interop.drivers.base import PATIENCE_S
from tests.interop.groups import SETTINGS, committed, view_group

COMMIT, SYNC = 8, 14
TOPIC, PARTITIONS, EACH = "orders", 2, 5
SURVIVOR, OTHER = "survivor", "other"


class SyncGate:
    """Lets the survivor's SyncGroup wait, once it is shut, until the survivor has committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_shut = False
        self.has_kept = threading.Event()
        self._kept: list[tuple[Server, SyncGroupRequest, Call]] = []
        self._sync: Callable[..., Any] = HANDLERS[SYNC].handle
        self._commit: Callable[..., Any] = HANDLERS[COMMIT].handle
        monkeypatch.setattr(HANDLERS[SYNC], "handle", self._serve_sync)
        monkeypatch.setattr(HANDLERS[COMMIT], "handle", self._serve_commit)

    def _serve_sync(self, server: Server, request: SyncGroupRequest, call: Call) -> Any:
        if not self.is_shut or call.client_id != SURVIVOR:
            return self._sync(server, request, call)
        self._kept.append((server, request, call))
        self.has_kept.set()
        return None

    def _serve_commit(self, server: Server, request: OffsetCommitRequest, call: Call) -> Any:
        response = self._commit(server, request, call)
        if self._kept and call.client_id == SURVIVOR:
            self.is_shut = False
            while self._kept:
                self._pass(*self._kept.pop())
        return response

    def _pass(self, server: Server, request: SyncGroupRequest, call: Call) -> None:
        response = self._sync(server, request, call)
        if response is not None:
            call.reply(response)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> SyncGate:
    return SyncGate(monkeypatch)


@pytest.fixture
def broker(gate: SyncGate) -> Iterator[Broker]:
    """A group that rebalances as on Kafka, with held heartbeats."""
    with Broker(SETTINGS | {"group.rebalance.incremental": "off"}, topics={TOPIC: PARTITIONS}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        for number in range(PARTITIONS * EACH):
            producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        yield running


def consumer(broker: Broker, group: str, client_id: str, told: list[KafkaError | None]) -> Consumer:
    """It commits when it closes and at no other time."""
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "client.id": client_id,
        "partition.assignment.strategy": "cooperative-sticky",
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 3_600_000,
        "on_commit": lambda error, _: told.append(error),
        "log_level": 0,
    }
    made = Consumer(settings)
    made.subscribe([TOPIC])
    return made


def until(what: str, is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"waited {PATIENCE_S:g} s in vain: {what}"


def test_the_last_commit_of_a_survivor_that_closes_while_it_rejoins(broker: Broker, gate: SyncGate) -> None:
    group, told, seen = f"group-{uuid.uuid4()}", list[KafkaError | None](), dict[tuple[int, int], str]()
    members = {name: consumer(broker, group, name, told) for name in (SURVIVOR, OTHER)}

    def have_read() -> bool:
        """Each member has a partition of its own, and somebody has read every record."""
        for name, member in members.items():
            for message in member.consume(100, timeout=0.02):
                assert message.error() is None
                seen[message.partition() or 0, message.offset() or 0] = name
        shares = [len(member.assignment()) for member in members.values()]
        return shares == [1, 1] and len(seen) == PARTITIONS * EACH

    until("both have read", have_read)
    gate.is_shut = True
    members[OTHER].close()
    until("the survivor rejoins", gate.has_kept.is_set)
    state = view_group(broker, group)
    assert (state.state, len(state.members)) == ("CompletingRebalance", 1)
    members[SURVIVOR].close()
    assert told
    assert not any(told), told
    assert committed(broker, group) == {(TOPIC, number): EACH for number in range(PARTITIONS)}
