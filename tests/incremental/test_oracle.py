"""Incremental groups beside what leaders assign, and what a rebalance costs. Rules C3.3 and C9."""

from __future__ import annotations

from random import Random

import pytest

from equipoise.assignors import ASSIGNORS
from equipoise.coordinator.config import GroupConfig
from equipoise.simulate import World
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.observer import Observer
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.schema import Message

CHURN = 12


class Joins(Observer):
    """JoinGroups by consumer."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def sent(self, name: str, request: Message) -> None:
        if isinstance(request, JoinGroupRequest):
            self.counts[name] = self.counts.get(name, 0) + 1

    def take(self) -> dict[str, int]:
        counts, self.counts = self.counts, {}
        return counts


class Group:
    """A world with one group, whose members come and go as the seed says."""

    def __init__(self, mode: str, assignor: str, seed: int) -> None:
        self.random = Random(seed)
        self.assignor = assignor
        self.joins = Joins()
        config = GroupConfig(group_rebalance_incremental=mode, group_initial_rebalance_delay_ms=0)
        self.world = World({"t": 11, "u": 5}, config=config, observers=[self.joins])
        self.world.hold_ms = 2_700
        self.members: dict[str, Consumer] = {}
        self.number = 0

    def change(self) -> str:
        """Somebody comes or goes; who. The group has settled then."""
        if len(self.members) > 1 and self.random.random() < 0.4:
            name = self.random.choice(sorted(self.members))
            self.members.pop(name).close()
        else:
            self.number += 1
            name = f"c{self.number:02d}"
            topics = self.random.choice([("t",), ("t", "u")])
            self.members[name] = self.world.consumer(name, self.assignor).subscribe(*topics)
        self.world.advance(1_000)
        self.world.settle()
        return name

    def owned(self) -> dict[str, frozenset[object]]:
        return {name: frozenset(one.member.assignment) for name, one in self.members.items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(6))
def test_c3_3_the_same_assignment_as_the_leaders(seed: int, assignor: str) -> None:
    """I11: equal for range and roundrobin; for the sticky ones the same loads, and no fewer partitions are kept."""
    classic, incremental = Group("off", assignor, seed), Group("all", assignor, seed)
    kept = {"classic": 0, "incremental": 0}
    for _ in range(CHURN):
        before = classic.owned(), incremental.owned()
        assert classic.change() == incremental.change()
        after = classic.owned(), incremental.owned()
        if assignor in ("range", "roundrobin"):
            assert after[0] == after[1]
        assert sorted(map(len, after[0].values())) == sorted(map(len, after[1].values()))
        for side, old, new in zip(kept, before, after, strict=True):
            kept[side] += sum(len(new[name] & old[name]) for name in old if name in new)
    assert kept["incremental"] >= kept["classic"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(20, 26))
def test_who_neither_loses_nor_gains_never_joins(seed: int, assignor: str) -> None:
    """I5 and I6: two JoinGroups for a cooperative loser, one for everybody else; a newcomer asks for its id first."""
    group = Group("all", assignor, seed)
    group.change()
    for _ in range(CHURN):
        before = group.owned()
        group.joins.take()
        who = group.change()
        after, joins = group.owned(), group.joins.take()
        for name, had in before.items():
            loses, gains = had - after.get(name, had), after.get(name, had) - had
            most = 0 if not loses and not gains else 2 if loses and assignor == "cooperative-sticky" else 1
            assert joins.get(name, 0) <= most, f"{name} had {had} and has {after.get(name)}"
        assert joins.get(who, 0) <= 2
