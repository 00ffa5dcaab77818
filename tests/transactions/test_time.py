"""Rules T.37 to T.39: transactions time out, ids expire."""

from __future__ import annotations

import pytest

from equipoise.coordinator.transactions.events import EndReason, TransactionEnded
from equipoise.coordinator.transactions.expiry import MOST_AT_ONCE
from equipoise.coordinator.transactions.metadata import TransactionMetadata, TxnTransitMetadata
from equipoise.coordinator.transactions.requests import Answer, EndTxn, InitProducerId
from equipoise.coordinator.transactions.states import State
from equipoise.wire.errors import ErrorCode
from tests.transactions.world import ID, MINUTE, T1, TV2, World

OK = ErrorCode.NONE
DAY = 86_400_000
HOUR = 3_600_000


@pytest.mark.parametrize("version", [1, TV2])
def test_a_transaction_that_is_open_for_too_long_is_aborted(version: int) -> None:
    """Rules T.28, T.29, T.37 and T.39: the time counts from the first partition, not from the last."""
    world = World(transaction_version=version)
    producer_id, epoch = world.bring(State.ONGOING, version)
    world.advance(MINUTE - 10)
    world.add(producer_id, epoch, T1, version=version)
    world.advance(10)
    assert world.state is State.ONGOING
    world.advance(1)
    assert world.state is State.COMPLETE_ABORT
    assert world.producer == (producer_id, epoch + 1)
    (ended,) = [event for event in world.events if isinstance(event, TransactionEnded)]
    assert (ended.reason, ended.open_ms) == (EndReason.TIMED_OUT, MINUTE + 1)


def test_the_producer_then_is_fenced_or_goes_on() -> None:
    """Rule T.82: of transaction version 2 an abort is a repeated one, and tells the next epoch."""
    world = World()
    producer_id, epoch = world.bring(State.ONGOING, TV2)
    world.advance(MINUTE + 1)
    assert world.end(producer_id, epoch, True, TV2).error_code == ErrorCode.INVALID_TXN_STATE
    assert world.end(producer_id, epoch, False, TV2) == Answer(OK, producer_id, epoch + 1)
    assert world.end(producer_id, epoch, False).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.EMPTY, State.COMPLETE_COMMIT])
def test_other_states_do_not_time_out(state: State) -> None:
    """Rule T.37."""
    world = World()
    world.bring(state)
    world.advance(2 * MINUTE)
    assert world.state is state


def test_a_decision_that_is_under_way_wins() -> None:
    """Rule T.37."""
    world = World()
    producer = world.bring(State.ONGOING)
    world.flows = False
    asked = world.ask(EndTxn(ID, *producer, True))
    world.advance(2 * MINUTE)
    world.flow()
    assert world.answers[asked].error_code == OK
    assert world.state is State.COMPLETE_COMMIT


def test_the_timeout_outlives_a_crash() -> None:
    """Rules T.37 and T.75."""
    world = World()
    world.bring(State.ONGOING)
    world.advance(MINUTE - 1)
    world.restart()
    world.advance(1)
    assert world.state is State.ONGOING
    world.advance(1)
    assert world.state is State.COMPLETE_ABORT


def test_a_wall_clock_that_is_set_forward_is_noticed_within_the_interval() -> None:
    """Rule T.39."""
    world = World()
    shift = 0
    world.shard.wall_time = lambda now: now + shift  # type: ignore[assignment,return-value]
    world.bring(State.ONGOING)
    shift = HOUR
    world.advance(10_000)
    assert world.state is State.COMPLETE_ABORT


@pytest.mark.parametrize("version", [1, TV2])
def test_a_fence_that_cannot_be_written_is_tried_again(version: int) -> None:
    """Rule T.37: after each interval, and not at once."""
    world = World(transaction_version=version)
    world.bring(State.ONGOING, version)
    world.flows = False
    world.advance(MINUTE + 1)
    for _ in range(3):
        world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert world.state is State.ONGOING
        world.advance(10_000 - 1)
        assert not world.writes
        world.advance(1)
        assert len(world.writes) == 1
    world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.flows = True
    world.advance(10_000)
    assert world.state is State.COMPLETE_ABORT


def test_a_fence_by_a_new_producer_that_cannot_be_written_leaves_the_timeout() -> None:
    """Rules T.28 and T.37."""
    world = World()
    world.bring(State.ONGOING)
    world.flows = False
    world.ask(InitProducerId(ID, MINUTE))
    world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.flows = True
    world.advance(MINUTE)
    assert world.state is State.ONGOING
    world.advance(1)
    assert world.state is State.COMPLETE_ABORT


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_an_id_that_is_silent_for_a_week_is_forgotten(state: State) -> None:
    """Rule T.38."""
    world = World()
    producer = world.bring(state)
    world.advance(7 * DAY - 1)
    assert ID in world.shard.entries
    world.advance(HOUR)
    assert not world.shard.entries
    assert world.log[-1][1] is None
    assert world.add(*producer) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.init(*producer) == Answer(OK, 10, 0)
    world.restart()
    assert world.producer == (10, 0)


def test_an_id_that_expires_just_now_cannot_change() -> None:
    """Rules T.6 and T.38."""
    world = World()
    producer = world.bring(State.EMPTY)
    world.flows = False
    world.advance(7 * DAY + HOUR)
    assert world.add(*producer) == ErrorCode.CONCURRENT_TRANSACTIONS
    world.flow()
    assert not world.shard.entries


def test_a_tombstone_that_cannot_be_written_leaves_the_id() -> None:
    """Rule T.38."""
    world = World()
    producer = world.bring(State.EMPTY)
    world.flows = False
    world.advance(7 * DAY + HOUR)
    world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.flows = True
    assert world.add(*producer) == OK


def with_silent_ids() -> World:
    """More than one portion, and the first has been taken."""
    world = World(flows=False)
    fields = TxnTransitMetadata(1, MINUTE, producer_epoch=0, last_update_ms=world.now)
    for number in range(MOST_AT_ONCE + 5):
        name = f"id-{number}"
        world.shard.entries[name] = TransactionMetadata(name, fields)
    world.now += 8 * DAY
    world.run(world.shard.tick(world.now))
    assert len(world.writes) == MOST_AT_ONCE
    return world


def test_portions_that_cannot_be_written_are_tried_again_after_the_interval() -> None:
    """Rule T.38."""
    world = with_silent_ids()
    while world.writes:
        world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.advance(HOUR - 1)
    assert not world.writes
    for portion in (MOST_AT_ONCE, 5):
        world.advance(1)
        assert len(world.writes) == portion
        world.flow()
    assert not world.shard.entries


def test_many_ids_are_forgotten_in_portions() -> None:
    """Rule T.38: the work of one turn is bounded."""
    world = with_silent_ids()
    world.flow()
    world.flows = True
    world.advance(1)
    assert not world.shard.entries
