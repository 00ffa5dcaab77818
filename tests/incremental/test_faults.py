"""A fault at every moment of a move: the broker crashes, or the loser, the gainer or both die. Nobody shares, nobody
loses what it keeps, and all is read in the end. Rules C6.3, C6.4 and C6.8."""

from __future__ import annotations

import pytest

from equipoise.coordinator.config import GroupConfig
from equipoise.simulate import World
from equipoise.wire.errors import ErrorCode
from tests.incremental.hunting import IncrementalWatch

SESSION = 6_000
MOMENTS = range(28)  # milliseconds after the newcomer: a move takes about 25


def world_of_two(assignor: str) -> tuple[World, IncrementalWatch]:
    watch = IncrementalWatch()
    config = GroupConfig(group_rebalance_incremental="all", group_initial_rebalance_delay_ms=0)
    world = World({"t": 6}, config=config, observers=[watch])
    watch.world = world
    world.hold_ms = 1_800
    for name in ("a", "b"):
        join(world, name, assignor)
        world.settle()
    return world, watch


def join(world: World, name: str, assignor: str) -> None:
    world.consumer(name, assignor, session_timeout_ms=SESSION, heartbeat_interval_ms=2_000).subscribe("t")


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
@pytest.mark.parametrize("dies", [("b",), ("c",), ("b", "c"), ("a", "b")])
def test_members_die_at_every_moment(dies: tuple[str, ...], assignor: str) -> None:
    for moment in MOMENTS:
        world, _ = world_of_two(assignor)
        join(world, "c", assignor)
        world.advance(moment)
        for name in dies:
            world.kill(name)
        world.advance(2 * SESSION)
        world.settle()
        assert sum(len(one.partitions) for one in world.consumers.values()) == 6


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_the_broker_crashes_at_every_moment(assignor: str) -> None:
    for moment in MOMENTS:
        world, watch = world_of_two(assignor)
        join(world, "c", assignor)
        world.advance(moment)
        world.crash()
        world.advance(2 * SESSION)
        world.settle()
        assert sorted(len(one.partitions) for one in world.consumers.values()) == [2, 2, 2]
        assert [one for one in watch.lost if one.startswith(("a", "b"))] == []


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_an_answer_is_lost_at_every_moment(assignor: str) -> None:
    """The client joins again with its old generation and its claims: nothing that it claims is free."""
    for moment in MOMENTS:
        for name in ("a", "b", "c"):
            world, watch = world_of_two(assignor)
            join(world, "c", assignor)
            world.advance(moment)
            world.consumers[name].connection.cut()
            world.advance(2 * SESSION)
            world.settle()
            assert sorted(len(one.partitions) for one in world.consumers.values()) == [2, 2, 2]
            assert not any(ErrorCode.UNKNOWN_MEMBER_ID.name in one for one in watch.lost)
