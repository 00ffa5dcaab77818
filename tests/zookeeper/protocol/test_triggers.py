"""What makes a member rebalance, in both modes: members, partitions, topics, brokers and sessions that come and go."""

from __future__ import annotations

import pytest

from equipoise.simulate.zookeeper.world import SESSION_MS, World
from equipoise.zookeeper.protocol.layout import BROKER_IDS, broker_json, whitelist

both = pytest.mark.parametrize("mode", ["faithful", "safe"])
ORDERS = {"orders": 1}


def settled(world: World, *shares: int) -> None:
    """Each member has as many."""
    assert world.run_until(
        lambda: world.is_settled() and [len(member.fetching) for member in world.members] == list(shares)
    )


@both
def test_members_that_come_and_go(mode: str) -> None:
    world = World()
    world.topic("orders", 4)
    one = world.join("c1", ORDERS, mode=mode)
    settled(world, 4)
    world.join("c2", ORDERS, mode=mode)
    settled(world, 2, 2)
    one.leave()
    settled(world, 4)
    assert world.violations == set()


@both
def test_a_member_that_is_killed(mode: str) -> None:
    world = World()
    world.topic("orders", 4)
    for name in ("c1", "c2"):
        world.join(name, ORDERS, mode=mode)
    settled(world, 2, 2)
    world.members[0].close()
    settled(world, 4)


@both
def test_added_partitions(mode: str) -> None:
    world = World()
    world.topic("orders", 2)
    world.join("c1", ORDERS, mode=mode)
    settled(world, 2)
    world.topic("orders", 5)
    settled(world, 5)


@both
def test_a_topic_that_does_not_exist_yet(mode: str) -> None:
    world = World()
    world.join("c1", ORDERS, mode=mode)
    world.run(1_000)
    world.topic("orders", 2)
    settled(world, 2)


@both
def test_a_new_topic_that_a_filter_allows(mode: str) -> None:
    world = World()
    world.topic("orders.eu", 2)
    world.join("c1", whitelist("orders.*"), mode=mode)
    settled(world, 2)
    world.topic("orders.us", 2)
    settled(world, 4)


@both
def test_without_brokers_a_consumer_waits_for_the_first(mode: str) -> None:
    world = World()
    world.tree.delete(f"{BROKER_IDS}/0")
    world.topic("orders", 2)
    one = world.join("c1", ORDERS, mode=mode)
    world.run(10_000)
    assert (one.owned(), one.errors) == (frozenset(), [])
    world.tree.create(f"{BROKER_IDS}/1", broker_json("host", 9093, 0))
    settled(world, 2)


@both
@pytest.mark.parametrize("ms", [100, 2 * SESSION_MS])
def test_a_connection_that_was_lost(mode: str, ms: int) -> None:
    """In time the session goes on under the same id; after its end safe mode has another."""
    world = World()
    world.topic("orders", 4)
    one, _ = (world.join(name, ORDERS, mode=mode) for name in ("c1", "c2"))
    settled(world, 2, 2)
    before, session = one.policy.consumer_id, one.session
    world.cut_off(one, ms)
    world.run(ms + 1_000)
    settled(world, 2, 2)
    assert (one.session == session) is (ms < SESSION_MS)
    assert (one.policy.consumer_id == before) is (mode == "faithful" or ms < SESSION_MS)
