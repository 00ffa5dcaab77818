"""Rules T.89 and T.90: DescribeTransactions and ListTransactions, on the core."""

from __future__ import annotations

import pytest

from equipoise.coordinator.transactions.describe import ListFilter, describe, list_transactions
from equipoise.coordinator.transactions.states import State
from equipoise.wire.errors import ErrorCode
from tests.transactions.world import ID, MINUTE, T0, T1, World


def visible(topic: str) -> bool:
    return topic != "hidden"


def test_an_id_is_described() -> None:
    """Rule T.89: topics that the caller may not see are left out."""
    world = World()
    producer_id, epoch = world.bring(State.ONGOING)
    world.add(producer_id, epoch, T1, ("hidden", 0), ("a", 3))
    found = describe(world.shard, ID, visible)
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, ID, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (producer_id, epoch)
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (MINUTE, world.now)
    assert [(one.topic, one.partitions) for one in found.topics] == [("a", [3]), ("t", [0, 1])]


def test_of_a_decision_the_partitions_without_marker() -> None:
    """Rule T.89."""
    world = World()
    producer = world.bring(State.EMPTY)
    world.add(*producer, T0, T1)
    world.flows = False
    world.end_later(*producer)
    world.write_next()
    world.run(world.shard.markers_written(ID, [T0], world.now))
    found = describe(world.shard, ID, visible)
    assert found.transaction_state == "PrepareCommit"
    assert [(one.topic, one.partitions) for one in found.topics] == [("t", [1])]


def test_what_cannot_be_described() -> None:
    """Rule T.89."""
    world = World()
    world.bring(State.EMPTY)
    assert describe(world.shard, "nobody", visible).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(world.shard, "", visible).error_code == ErrorCode.INVALID_REQUEST
    world.entry.pending = State.DEAD
    assert describe(world.shard, ID, visible).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    loading = world._new_shard()
    assert describe(loading, ID, visible).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (ListFilter(), ["busy", "idle"]),
        (ListFilter(states=frozenset({"Ongoing"})), ["busy"]),
        (ListFilter(states=frozenset({"Ongoing", "Empty"})), ["busy", "idle"]),
        (ListFilter(states=frozenset({"Unheard"})), []),
        (ListFilter(producer_ids=frozenset({10})), ["idle"]),
        (ListFilter(duration_ms=999), ["busy", "idle"]),  # an id without a transaction counts as open since 1969
        (ListFilter(duration_ms=1000), ["idle"]),
        (ListFilter(matches=lambda name: name.startswith("b")), ["busy"]),
    ],
)
def test_filters(wanted: ListFilter, names: list[str]) -> None:
    """Rule T.90."""
    world = World()
    world.init(name="busy")
    world.init(name="idle")
    world.add_to("busy", 9, 0)
    world.advance(1000)
    assert [one.transactional_id for one in list_transactions(world.shard, wanted, world.now)] == names
