"""Groups under random members of both protocols: they come, go, change sides and are restarted under; at no step has a
partition two owners, and when it is quiet every partition has one."""

from __future__ import annotations

import random

import pytest

from equipoise.wire.errors import ErrorCode
from tests.consumer_guests.mixed import Guest, Mixed, Modern
from tests.effort import examples

PARTITIONS = 7
STEPS = 120
SEEDS = range(examples(100))
BEAT_MS = 5_000
SESSIONS_MS = 50_000  # more than any session


class Walk:
    """Random steps, of which the seed says all."""

    def __init__(self, seed: int, *, restarts: bool) -> None:
        self.random = random.Random(seed)
        self.ctx = Mixed(partitions=PARTITIONS, group_initial_rebalance_delay_ms=0)
        self.clients: list[Guest | Modern] = []
        self.restarts = restarts
        self.was_restarted = False
        self.number = 0

    def step(self) -> None:
        way = self.random.choice(
            [self.live, self.live, self.live, self.live, self.live, self.come, self.go, self.tick, self.restart]
        )
        way()
        self.ctx.check()
        self.ctx.check_clients(*self.clients)

    def live(self) -> None:
        """A client sends a heartbeat, and does what it is told."""
        if self.clients:
            self.random.choice(self.clients).live()
        self.tick()

    def come(self) -> None:
        if len(self.clients) >= 5:
            return
        self.number += 1
        if self.random.random() < 0.5:
            one = self.ctx.modern(f"n{self.number}")
            assert one.join().error is ErrorCode.NONE
            self.clients.append(one)
        else:
            guest = self.ctx.guest(f"c{self.number}", eager=self.is_eager)
            self.clients.append(guest)
            guest.begin()

    @property
    def is_eager(self) -> bool:
        """All guests are of one kind: they must have a protocol in common."""
        found = [one.is_eager for one in self.clients if isinstance(one, Guest)]
        return found[0] if found else self.random.random() < 0.5

    def go(self) -> None:
        if self.clients and self.random.random() < 0.7:
            one = self.clients.pop(self.random.randrange(len(self.clients)))
            one.leave()

    def tick(self) -> None:
        """A classic group may have something to end."""
        self.ctx.advance(1)
        if self.ctx.is_classic:
            self.ctx.settle_classic([one for one in self.clients if isinstance(one, Guest)])

    def restart(self) -> None:
        """What waited for an answer has lost its connection, and begins anew."""
        if not self.restarts or self.random.random() < 0.5:
            return
        self.was_restarted = True
        before = None if self.ctx.is_classic else self.ctx.shard.consumer_groups.get("g")
        self.ctx.restart()
        if before is not None:
            assert self.ctx.consumer_group == before

    def end(self) -> None:
        """Nothing new comes; all settle."""
        for _ in range(SESSIONS_MS // BEAT_MS):  # who has left a classic group just before a restart is back until then
            self.ctx.advance(BEAT_MS)
            self.ctx.settle(*self.clients)
            self.tick()
        owned = sorted(number for one in self.clients for number in one.owned)
        assert owned == ([*range(PARTITIONS)] if self.clients else [])
        sizes = [len(one.owned) for one in self.clients]
        if sizes and not self.ctx.is_classic:
            assert max(sizes) - min(sizes) <= 1
        if not self.was_restarted:
            assert not [one.losses for one in self.clients if isinstance(one, Guest) and one.losses]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_partition_has_two_owners(seed: int, restarts: bool) -> None:
    walk = Walk(seed, restarts=restarts)
    for _ in range(STEPS):
        walk.step()
    walk.end()
