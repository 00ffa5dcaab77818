"""Random changes of a group in safe mode, cut connections and silent networks among them.

Whatever happens, every record is read, and no record by one member when its partition is another's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from equipoise.zookeeper import ZooKeeperServer
from tests.zookeeper.door import Door
from tests.zookeeper.town import Reader, Town

pytestmark = pytest.mark.soak
STEPS, MOST_MEMBERS, MOST_PARTITIONS, SESSION_MS = 14, 4, 12, 1500


class Hunt:
    """Each member has a door of its own between itself and ZooKeeper."""

    def __init__(self, town: Town, chance: random.Random, stack: ExitStack) -> None:
        self._town, self._chance, self._stack = town, chance, stack
        self._servers, _, self._path = town.connect.partition("/")
        self.members: list[tuple[Reader, Door]] = []
        self.partitions = 8
        self.may_read_twice = False
        town.create_topic("orders", self.partitions)

    @property
    def readers(self) -> list[Reader]:
        return [reader for reader, _ in self.members]

    def join(self) -> None:
        if len(self.members) < MOST_MEMBERS:
            name = f"c{self._chance.randrange(10_000):04}"
            door = self._stack.enter_context(Door(self._servers))
            settings = {"zookeeper_connect": f"{door.address}/{self._path}", "zookeeper_session_timeout_ms": SESSION_MS}
            reader = self._town.join(name, {"orders": self._chance.choice((1, 2))}, **settings)
            self.members.append((reader, door))

    def leave(self) -> None:
        if self.members:
            reader, _ = self.members.pop(self._chance.randrange(len(self.members)))
            self._town.leave(reader)

    def cut(self) -> None:
        if self.members:
            self.may_read_twice = True  # on a busy machine the session may be over
            self._chance.choice(self.members)[1].cut()

    def silence(self) -> None:
        """Until the session is over, or only until the member has noticed."""
        if self.members:
            self.may_read_twice = True
            reader, door = self._chance.choice(self.members)
            connector = reader.consumer.connector
            session = connector.policy.consumer_id
            door.shut()
            self._town.wait_until("it reads no more", lambda: not connector.gate.is_open)
            if self._chance.random() < 0.5:
                self._town.wait_until("it is missed", lambda: session not in self._town.members())
            door.open()

    def grow(self) -> None:
        if self.partitions < MOST_PARTITIONS:
            self.partitions += 1
            self._town.admin.add_partitions("orders", self.partitions)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Outlives the town, whose members need their doors until the end."""
    with ExitStack() as running:
        yield running


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost(zookeeper: ZooKeeperServer, stack: ExitStack, seed: int) -> None:
    chance = random.Random(seed)
    with Town(zookeeper.connect, f"hunt-{seed}") as town:
        hunt = Hunt(town, chance, stack)
        changes: list[Callable[[], None]] = [hunt.join, hunt.join, hunt.leave, hunt.cut, hunt.silence, hunt.grow]
        rows = set()
        for _ in range(STEPS):
            rows |= town.produce("orders", hunt.partitions, 5)
            chance.choice(changes)()
        if not hunt.members:
            hunt.join()
        town.wait_settled(town.places("orders", hunt.partitions), *hunt.readers)
        town.wait_read(rows)
        town.tenures.check()
        if not hunt.may_read_twice:
            assert set(town.ledger.read().values()) == {1}
            town.check_owners("safe")
