"""What each weakness of the old rebalance does, on a tree in memory, and that safe mode does not have it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from equipoise.member.partitions import TopicPartition
from equipoise.simulate.zookeeper.member import SimulatedMember
from equipoise.simulate.zookeeper.world import SESSION_MS, World, places
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.errors import (
    ConsumerRebalanceFailedError,
    InconsistentStrategyError,
    OwnershipLostError,
)
from equipoise.zookeeper.protocol.faithful import FaithfulPolicy
from equipoise.zookeeper.protocol.safe import SafePolicy

both = pytest.mark.parametrize("mode", ["faithful", "safe"])
ORDERS = {"orders": 1}
ORDERS_0, ORDERS_2 = TopicPartition("orders", 0), TopicPartition("orders", 2)
T0, T1 = TopicPartition("t0", 0), TopicPartition("t1", 0)


def settled(world: World) -> None:
    assert world.run_until(world.is_settled)


def alone(mode: str, partitions: int) -> tuple[World, SimulatedMember]:
    world = World()
    world.topic("orders", partitions)
    one = world.join("c1", ORDERS, mode=mode)
    settled(world)
    return world, one


@both
def test_stop_of_the_world(mode: str) -> None:
    world, one = alone(mode, 4)
    two = world.join("c2", ORDERS, mode=mode)
    world.run_until(lambda: world.is_settled() and len(two.fetching) == 2)
    released = set().union(*one.released)
    assert released == (places("orders", range(4)) if mode == "faithful" else places("orders", (2, 3)))


@both
def test_early_offsets(mode: str) -> None:
    """A member comes in order, and yet records are read twice, if its steps meet those of the owner in a bad order."""
    found = set()
    for seed in range(200):
        world = World(seed)
        world.topic("orders", 1)
        world.join("c2", ORDERS, mode=mode)
        settled(world)
        world.produce(5)
        world.read(5)
        one = world.join("c1", ORDERS, mode=mode)
        assert world.run_until(partial(_is_taken_up, world, one))
        world.run(10)
        found |= world.read_twice()
        assert world.violations == set()
    assert bool(found) is (mode == "faithful")


@both
def test_claims_one_by_one(mode: str) -> None:
    """Another's node stands in the way of one partition; nodes of the others come and go meanwhile."""
    world = World()
    world.topic("orders", 3)
    world.tree.create(world.paths.owner(ORDERS_2), b"somebody-0")
    world.join("c1", ORDERS, mode=mode)
    seen = world.run_until(lambda: ORDERS_0 in world.owners(), 8_000)
    assert seen is (mode == "faithful")
    assert world.run_until(lambda: ORDERS_0 not in world.owners(), 1_000)


@both
def test_same_text_same_owner(mode: str) -> None:
    """A node of a session that is as good as dead: taken over with its text, it goes when that session ends."""
    world = World()
    world.topic("orders", 1)
    dead = world.tree.new_session()
    world.tree.create(world.paths.owner(ORDERS_0), b"billing_c1-0", dead)
    one = world.join("c1", ORDERS, mode=mode)
    world.run(1_000)
    assert bool(one.fetching) is (mode == "faithful")
    world.tree.end_session(dead)
    world.run(5_000)
    assert one.fetching
    assert bool(world.owners()) is (mode == "safe")


@both
def test_deletes_by_path(mode: str) -> None:
    """The node was lost, and is another's by now. At the next change the owner of before deletes it all the same."""
    world, _ = alone(mode, 2)
    path = world.paths.owner(ORDERS_0)
    world.tree.delete(path)
    world.tree.create(path, b"somebody-0")
    world.tree.set(world.paths.epoch(ORDERS_0), b"somebody")
    world.join("c0", ORDERS, mode=mode)
    world.run(5_000)
    assert (world.owners()[ORDERS_0] == "somebody-0") is (mode == "safe")


def cut_off_and_taken_over(mode: str) -> tuple[World, SimulatedMember, SimulatedMember]:
    """Of ten records the first has read five, and is committing them when it is cut off; the second reads all."""
    world = World(1)
    world.topic("orders", 1)
    one = world.join("c1", ORDERS, mode=mode)
    settled(world)
    world.produce(5)
    world.read(5)
    world.cut_off(one, 10 * SESSION_MS, noticed_ms=4_000)
    one.commit()
    two = world.join("c2", ORDERS, mode=mode)
    world.run_until(lambda: bool(two.fetching))
    world.produce(5)
    assert world.run_until(lambda: ("c2", 9) in {(record.member, record.offset) for record in world.records})
    two.commit()
    assert world.run_until(lambda: world.offset(ORDERS_0) == 10, SESSION_MS)
    return world, one, two


@both
def test_zombie_owner(mode: str) -> None:
    world, one, _ = cut_off_and_taken_over(mode)
    assert ("a partition had two readers" in world.violations) is (mode == "faithful")
    assert one.can_read(ORDERS_0) is (mode == "faithful")


@both
def test_unfenced_commits(mode: str) -> None:
    """The commit was under way when the connection was lost. The old client completes it in its next session."""
    world, one, _ = cut_off_and_taken_over(mode)
    world.run_until(lambda: one.is_connected)
    went_back = world.run_until(lambda: "an offset went back" in world.violations, 1_000)
    assert went_back is (mode == "faithful")
    one.commit()
    world.run(5_000)
    settled(world)
    assert ("an offset was written under an old epoch" in world.violations) is False


def test_in_safe_mode_a_commit_without_a_connection_is_an_error() -> None:
    world, one, _ = cut_off_and_taken_over("safe")
    one.errors.clear()
    one.commit()
    world.run(10)
    assert isinstance(one.errors[0], OwnershipLostError)


@both
def test_a_late_commit(mode: str) -> None:
    """The partition is another's by now, and its epoch has moved on."""
    world, one = alone(mode, 1)
    world.produce(5)
    world.read(5)
    world.tree.set(world.paths.epoch(ORDERS_0), b"somebody")
    one.commit()
    world.run(100)
    assert world.offset(ORDERS_0) == (5 if mode == "faithful" else None)
    assert [type(error) for error in one.errors] == ([] if mode == "faithful" else [OwnershipLostError])


def test_forgotten_nodes() -> None:
    """After a lost session the registry is emptied, and what is fetched goes on being handed out."""
    world, one = alone("faithful", 1)
    assert isinstance(one.policy, FaithfulPolicy)
    one.policy.reset_state()
    assert (one.owned(), one.can_read(ORDERS_0), bool(world.owners())) == (frozenset(), True, True)


@both
def test_blind_back_off(mode: str) -> None:
    """The node in the way is gone: one sleeps on, the other has watched it."""
    world = World()
    world.topic("orders", 2)
    world.tree.create(world.paths.owner(ORDERS_0), b"somebody-0")
    one = world.join("c1", ORDERS, mode=mode, rebalance_backoff_ms=20_000)
    world.run(500)
    assert one.policy.attempts == 1
    world.tree.delete(world.paths.owner(ORDERS_0))
    before = world.now
    settled(world)
    assert (world.now - before > 10_000) is (mode == "faithful")


@both
def test_registered_non_owner(mode: str) -> None:
    """All attempts have failed. The old member is counted and reads nothing, until something else happens."""
    world, one = alone(mode, 2)
    world.tree.create(world.paths.owner(ORDERS_2), b"somebody-0")
    world.topic("orders", 3)
    world.run(60_000)
    assert isinstance(one.errors[-1], ConsumerRebalanceFailedError)
    assert one.policy.attempts > 20 or mode == "faithful"
    assert one.fetching.keys() == (places("orders", ()) if mode == "faithful" else places("orders", (0, 1)))
    world.tree.delete(world.paths.owner(ORDERS_2))
    assert world.run_until(world.is_settled, 5_000) is (mode == "safe")
    assert world.tree.children(world.paths.ids) == (one.policy.consumer_id,)


@both
def test_at_the_start_whoever_cannot_claim_stays_counted_or_leaves(mode: str) -> None:
    world = World()
    world.topic("orders", 1)
    world.tree.create(world.paths.owner(ORDERS_0), b"somebody-0")
    one = world.join("c1", ORDERS, mode=mode)
    assert world.run_until(lambda: bool(one.errors))
    assert isinstance(one.errors[0], ConsumerRebalanceFailedError)
    assert len(world.tree.children(world.paths.ids)) == (mode == "faithful")


@both
def test_untold_strategy(mode: str) -> None:
    """The smallest silent orphan: roundrobin first, range second. Nobody has an error, or the second is refused."""
    world = World()
    world.topic("t0", 1)
    world.topic("t1", 1)
    one = world.join("c0", {"t0": 1, "t1": 1}, mode=mode, partition_assignment_strategy="roundrobin")
    settled(world)
    two = world.join("c1", {"t0": 1, "t1": 1}, mode=mode, partition_assignment_strategy="range")
    world.run(60_000)
    if mode == "faithful":
        assert (world.owners(), one.errors, two.errors) == ({T0: "billing_c0-0"}, [], [])
    else:
        assert world.owners().keys() == {T0, T1}
        assert isinstance(two.errors[0], InconsistentStrategyError)


def test_the_other_way_round_the_loser_has_nothing() -> None:
    """Both claim t1: the first to write keeps its share, the other loses all of its own."""
    world = World()
    world.topic("t0", 1)
    world.topic("t1", 1)
    for name, strategy in (("c0", "range"), ("c1", "roundrobin")):
        world.join(name, {"t0": 1, "t1": 1}, mode="faithful", partition_assignment_strategy=strategy)
    world.run(60_000)
    assert world.owners() in ({T0: "billing_c0-0", T1: "billing_c0-0"}, {T1: "billing_c1-0"})


# -- what safe mode does besides


def test_changes_that_come_together_are_one_rebalance() -> None:
    world, one = alone("safe", 4)
    before = one.policy.attempts
    for number in range(3):
        world.topic("orders", 4)
        world.run(number)
    world.run(2_000)
    assert one.policy.attempts == before + 1


def test_a_registration_that_a_stranger_deletes_is_made_again_at_once() -> None:
    world, one = alone("safe", 2)
    before = one.policy.consumer_id
    world.tree.delete(world.paths.registration(before))
    assert world.run_until(lambda: world.is_settled() and one.policy.consumer_id != before, 1_000)
    assert world.tree.children(world.paths.ids) == (one.policy.consumer_id,)


def test_events_of_one_kind_are_one() -> None:
    world, one = alone("faithful", 1)
    before = one.policy.attempts
    for _ in range(5):
        one.pending.add(ConsumerEvent.REBALANCE)
    world.run(5_000)
    assert one.policy.attempts == before + 1


def test_a_node_that_was_not_yet_released_blocks_nobody_after_a_reset() -> None:
    """The session is the same: the node is its own, though it has forgotten the partition."""
    world, one = alone("safe", 2)
    assert isinstance(one.policy, SafePolicy)
    one.policy._unreleased[ORDERS_0] = one.policy.topic_registry.pop(ORDERS_0)
    world.tree.delete(world.paths.registration(one.policy.consumer_id))
    assert world.run_until(lambda: one.owned() == places("orders", (0, 1)), 5_000)
    settled(world)


@pytest.mark.parametrize("leaves_by", ["a lost session", "another member"])
def test_an_offset_that_was_deleted_meanwhile_is_written_again(leaves_by: str) -> None:
    """It comes to the same value as before, which is not the value in ZooKeeper."""
    world, one = alone("safe", 1)
    world.produce(5)
    world.read(5)
    one.commit()
    assert world.run_until(lambda: one.policy.checkpointed == {ORDERS_0: 5})
    if leaves_by == "another member":
        other = world.join("c0", ORDERS)
        assert world.run_until(lambda: bool(other.fetching))
        other.close()
    else:
        world.cut_off(one, 2 * SESSION_MS)
        assert world.run_until(lambda: not world.owners())
    world.tree.delete(world.paths.offset(ORDERS_0))
    assert world.run_until(lambda: world.is_settled() and one.fetching[ORDERS_0].consumed == 5)
    one.commit()
    assert world.run_until(lambda: world.offset(ORDERS_0) == 5, 1_000)


def _is_taken_up(world: World, by: Any) -> bool:
    return world.is_settled() and bool(by.fetching)
