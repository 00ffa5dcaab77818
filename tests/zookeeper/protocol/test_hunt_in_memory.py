"""Random changes of groups in memory, by seeds: what must never happen in safe mode, and what did happen before."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from equipoise.simulate.zookeeper.member import SimulatedMember
from equipoise.simulate.zookeeper.world import SESSION_MS, World
from tests.effort import examples

STEPS, MOST_MEMBERS, MOST_PARTITIONS = 12, 4, 8
SEEDS = [*range(examples(60)), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(60, 600))]


class Hunt:
    def __init__(self, seed: int, **settings: object) -> None:
        self.world, self._settings = World(seed), settings
        self._chance = random.Random(seed)
        self._partitions, self._names = 5, 0
        self.world.topic("orders", self._partitions)

    def join(self) -> None:
        if len(self.world.members) < MOST_MEMBERS:
            self._names += 1
            name = f"c{self._chance.randrange(100):02}{self._names:02}"
            self.world.join(name, {"orders": self._chance.choice((1, 2))}, **self._settings)

    def _member(self) -> SimulatedMember | None:
        there = [member for member in self.world.members if not member.policy.is_closing]
        return self._chance.choice(there) if there else None

    def leave(self) -> None:
        if member := self._member():
            member.leave()

    def kill(self) -> None:
        if member := self._member():
            member.close()

    def cut_off(self) -> None:
        if member := self._member():
            self.world.cut_off(member, self._chance.choice((10, 1_000, SESSION_MS, 3 * SESSION_MS)))

    def flap(self) -> None:
        """The connection is back for a moment, and lost again."""
        if member := self._member():
            self.world.cut_off(member, self._chance.choice((5, 50)))
            self.world.run(self._chance.randint(5, 60))
            self.world.cut_off(member, self._chance.choice((50, SESSION_MS)), noticed_ms=self._chance.choice((0, 5)))

    def delete(self) -> None:
        """A stranger deletes the node of an owner, or of a member."""
        paths = [self.world.paths.owner(one) for one in self.world.owners()]
        paths += map(self.world.paths.registration, self.world.tree.children(self.world.paths.ids))
        if paths:
            self.world.tree.delete(self._chance.choice(paths))

    def pause(self) -> None:
        if (member := self._member()) and member.is_connected:
            self.world.pause(member, self._chance.choice((10, 1_000, SESSION_MS, 3 * SESSION_MS)))

    def commit(self) -> None:
        if member := self._member():
            member.commit()

    def grow(self) -> None:
        if self._partitions < MOST_PARTITIONS:
            self._partitions += 1
            self.world.topic("orders", self._partitions)

    def play(self, changes: list[Callable[[], None]]) -> World:
        """Changes at random moments, then peace. Whoever is left owns and reads everything in the end."""
        for _ in range(STEPS):
            self._chance.choice(changes)()
            self.world.produce(2)
            self.world.run(self._chance.choice((0, 5, 60, 500, 5_000)))
        self.world.run(4 * SESSION_MS)
        if not self.world.members:
            self.join()
        return self.world

    def orderly(self) -> list[Callable[[], None]]:
        return [self.join, self.join, self.leave, self.commit, self.grow]


STORES = [{}, {"offsets_storage": "kafka"}]


@pytest.mark.parametrize("settings", STORES, ids=["ZooKeeper", "both stores"])
@pytest.mark.parametrize("seed", SEEDS)
def test_safe_mode_has_one_reader_for_each_partition_whatever_happens(seed: int, settings: dict[str, object]) -> None:
    """Cut off and killed in any step: nobody reads what is another's, or commits it, and every record is read."""
    hunt = Hunt(seed, **settings)
    world = hunt.play([*hunt.orderly(), hunt.kill, hunt.cut_off, hunt.cut_off, hunt.flap])
    assert world.run_until(lambda: world.is_settled() and world.is_read())
    assert world.violations == set()


@pytest.mark.parametrize("seed", SEEDS)
def test_in_safe_mode_a_process_that_was_stopped_commits_nothing_that_is_anothers(seed: int) -> None:
    """It may hand out a few records before it hears that it was stopped; that is all."""
    hunt = Hunt(seed, offsets_storage="kafka")
    world = hunt.play([*hunt.orderly(), hunt.pause, hunt.pause, hunt.cut_off])
    assert world.run_until(lambda: world.is_settled() and world.is_read())
    assert world.violations <= {"a partition had two readers"}


@pytest.mark.parametrize("seed", SEEDS)
def test_in_safe_mode_records_are_read_once_if_members_come_and_go_in_order(seed: int) -> None:
    hunt = Hunt(seed)
    world = hunt.play(hunt.orderly())
    assert world.run_until(lambda: world.is_settled() and world.is_read())
    assert (world.violations, world.read_twice()) == (set(), set())


@pytest.mark.parametrize("seed", SEEDS)
def test_in_safe_mode_nodes_that_a_stranger_deletes_are_missed_in_the_end(seed: int) -> None:
    """Until then another member may claim what is still read; nothing is written under an old epoch."""
    hunt = Hunt(seed)
    world = hunt.play([*hunt.orderly(), hunt.delete, hunt.delete, hunt.flap])
    assert world.run_until(lambda: world.is_settled() and world.is_read())
    assert world.violations <= {"a partition had two readers"}


def test_as_it_was_members_that_are_cut_off_read_and_commit_what_is_anothers() -> None:
    found: set[str] = set()
    for seed in range(30):
        hunt = Hunt(seed, mode="faithful")
        found |= hunt.play([*hunt.orderly(), *[hunt.cut_off] * 2, *[hunt.commit] * 3]).violations
    assert found == {"a partition had two readers", "an offset went back"}


@pytest.mark.parametrize("seed", range(30))
def test_as_it_was_members_that_come_and_go_in_order_have_one_reader_for_each_partition(seed: int) -> None:
    """What the order of steps was for: fetchers stop before nodes are deleted, and start when all are made."""
    hunt = Hunt(seed, mode="faithful")
    assert hunt.play(hunt.orderly()).violations == set()
