"""Rules T.19 to T.23: partitions are added to a transaction, or verified."""

from __future__ import annotations

import pytest

from equipoise.coordinator.transactions.events import TransactionBegan
from equipoise.coordinator.transactions.requests import AddPartitions
from equipoise.coordinator.transactions.states import State
from equipoise.wire.errors import ErrorCode
from tests.transactions.world import ID, T0, T1, TV2, World

OK, BUSY = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("origin", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_the_first_partition_begins_the_transaction(origin: State) -> None:
    """Rule T.21."""
    world = World()
    producer = world.bring(origin)
    world.advance(5)
    assert world.add(*producer, T0, version=TV2) == OK
    record = world.records()[-1]
    assert (world.state, record.transaction_start_timestamp_ms) == (State.ONGOING, world.now)
    assert record.client_transaction_version == TV2
    assert [event.partitions for event in world.events if isinstance(event, TransactionBegan)][-1] == {T0}


def test_more_partitions_join_and_the_start_stays() -> None:
    """Rule T.21."""
    world = World()
    producer = world.bring(State.ONGOING)
    began = world.now
    world.advance(5)
    assert world.add(*producer, T1) == OK
    assert world.entry.fields.partitions == {T0, T1}
    assert world.entry.fields.start_ms == began
    assert world.entry.fields.last_update_ms == began + 5


def test_what_is_known_is_not_written_again() -> None:
    """Rule T.21."""
    world = World()
    producer = world.bring(State.ONGOING)
    written = len(world.log)
    assert world.add(*producer, T0) == OK
    assert len(world.log) == written


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_while_a_transaction_ends_the_next_cannot_begin(state: State) -> None:
    """Rule T.21."""
    world = World()
    producer = world.bring(state)
    assert world.add(*producer) == BUSY
    world.flow()
    world.flows = True
    assert world.add(*producer) == OK


def test_only_the_producer_of_today_may() -> None:
    """Rule T.21."""
    world = World()
    assert world.add(9, 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.bring(State.EMPTY)
    assert world.add(8, 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(9, 1) == ErrorCode.PRODUCER_FENCED
    assert world.answer(AddPartitions("", 9, 0, frozenset({T0}))).error_code == ErrorCode.INVALID_REQUEST


def test_one_change_at_a_time() -> None:
    """Rule T.6."""
    world = World()
    producer = world.bring(State.EMPTY)
    world.flows = False
    world.ask(AddPartitions(ID, *producer, frozenset({T0})))
    assert world.add(*producer, T1) == BUSY
    assert world.state is State.EMPTY
    world.flow()
    assert world.state is State.ONGOING


def test_records_may_go_with_the_record_that_admits_them() -> None:
    """Rule T.63: they are appended in the turn of the decision, and answered when both are durable."""
    world = World()
    producer = world.bring(State.EMPTY)
    world.flows = False
    asked = world.ask(AddPartitions(ID, *producer, frozenset({T0}), TV2, is_beside=True))
    assert world.admitted == [asked]
    assert asked not in world.answers
    world.flow()
    assert world.answers[asked].error_code == OK


def test_records_of_a_known_partition_are_admitted_at_once() -> None:
    """Rule T.63."""
    world = World()
    producer = world.bring(State.ONGOING, TV2)
    asked = world.ask(AddPartitions(ID, *producer, frozenset({T0}), TV2, is_beside=True))
    assert world.admitted == [asked]
    assert world.answers[asked].error_code == OK


def test_who_is_refused_is_not_admitted() -> None:
    """Rules T.60 and T.63: it waits as long as Kafka lets it wait."""
    world = World()
    producer_id, epoch = world.bring(State.PREPARE_COMMIT, TV2)
    asked = world.ask(AddPartitions(ID, producer_id, epoch + 1, frozenset({T0}), TV2, is_beside=True))
    world.advance(99)
    assert asked not in world.answers
    world.advance(1)
    assert world.answers[asked].error_code == BUSY
    assert world.admitted == []


def test_who_waits_is_admitted_when_the_id_is_free() -> None:
    """Rules T.60 and T.88."""
    world = World(transaction_park_ms=100)
    producer_id, epoch = world.bring(State.PREPARE_COMMIT, TV2)
    asked = world.ask(AddPartitions(ID, producer_id, epoch + 1, frozenset({T0}), TV2, is_beside=True))
    assert world.admitted == []
    world.flow()
    assert world.admitted == [asked]
    assert world.answers[asked].error_code == OK


def verify(world: World, producer_id: int, epoch: int, name: str = ID) -> list[ErrorCode]:
    found = world.shard.verify(AddPartitions(name, producer_id, epoch, frozenset({T0, T1})))
    return [found[T0], found[T1]]


def test_verification_says_which_partitions_belong_to_the_transaction() -> None:
    """Rule T.23."""
    world = World()
    producer = world.bring(State.ONGOING)
    assert verify(world, *producer) == [OK, ErrorCode.TRANSACTION_ABORTABLE]


def test_verification_of_others() -> None:
    """Rule T.23."""
    world = World()
    assert set(verify(world, 9, 0)) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    world.bring(State.ONGOING)
    assert set(verify(world, 8, 0)) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert set(verify(world, 9, 1)) == {ErrorCode.PRODUCER_FENCED}
    assert set(verify(world, 9, 0, "")) == {ErrorCode.INVALID_REQUEST}


def test_verification_while_a_transaction_ends() -> None:
    """Rule T.23."""
    world = World()
    producer = world.bring(State.PREPARE_COMMIT)
    assert set(verify(world, *producer)) == {BUSY}


def test_verification_does_not_look_at_what_is_pending() -> None:
    """Rule T.23."""
    world = World()
    producer = world.bring(State.ONGOING)
    world.flows = False
    world.ask(AddPartitions(ID, *producer, frozenset({T1})))
    assert verify(world, *producer) == [OK, ErrorCode.TRANSACTION_ABORTABLE]
