"""Random changes of a group in safe mode: whatever happens, every record is read and every partition has one owner."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.zookeeper.town import Reader, Town

pytestmark = pytest.mark.soak
STEPS, MOST_MEMBERS, MOST_PARTITIONS = 14, 4, 12


class Hunt:
    def __init__(self, town: Town, chance: random.Random) -> None:
        self._town, self._chance = town, chance
        self.readers: list[Reader] = []
        self.partitions = 8
        self.lost_sessions = 0
        town.create_topic("orders", self.partitions)

    def join(self) -> None:
        if len(self.readers) < MOST_MEMBERS:
            name = f"c{self._chance.randrange(10_000):04}"
            self.readers.append(self._town.join(name, {"orders": self._chance.choice((1, 2))}))

    def leave(self) -> None:
        if self.readers:
            self._town.leave(self.readers.pop(self._chance.randrange(len(self.readers))))

    def lose_session(self) -> None:
        if self.readers:
            self.lost_sessions += 1
            self._town.end_session(self._chance.choice(self.readers).consumer.rebalancer.client)

    def grow(self) -> None:
        if self.partitions < MOST_PARTITIONS:
            self.partitions += 1
            self._town.admin.add_partitions("orders", self.partitions)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost(town: Town, seed: int) -> None:
    chance = random.Random(seed)
    hunt = Hunt(town, chance)
    changes: list[Callable[[], None]] = [hunt.join, hunt.join, hunt.leave, hunt.lose_session, hunt.grow]
    rows = set()
    for _ in range(STEPS):
        rows |= town.produce("orders", hunt.partitions, 5)
        chance.choice(changes)()
    if not hunt.readers:
        hunt.join()
    town.wait_settled(town.places("orders", hunt.partitions), *hunt.readers)
    town.wait_read(rows)
    if not hunt.lost_sessions:
        assert set(town.ledger.read().values()) == {1}
        town.check_owners("safe")
