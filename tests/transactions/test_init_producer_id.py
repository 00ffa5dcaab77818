"""Rules T.9 to T.18: InitProducerId."""

from __future__ import annotations

import pytest

from equipoise.coordinator.transactions.events import EndReason, ProducerFenced, TransactionEnded
from equipoise.coordinator.transactions.requests import Answer, EndTxn, InitProducerId
from equipoise.coordinator.transactions.states import State
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.transactions.world import ID, MINUTE, TV2, World

OK = ErrorCode.NONE


def test_a_new_id_gets_a_producer_id_and_epoch_0() -> None:
    """Rules T.12, T.17 and T.18."""
    world = World()
    assert world.init() == Answer(OK, 9, 0)
    (record,) = world.records()
    assert (record.transaction_status, record.transaction_partitions) == (0, None)
    assert record.transaction_start_timestamp_ms == -1
    assert record.transaction_timeout_ms == MINUTE
    assert record.previous_producer_id == 9


def test_the_next_producer_gets_the_next_epoch() -> None:
    """Rule T.16."""
    world = World()
    world.init()
    assert world.init() == Answer(OK, 9, 1)
    assert world.init(timeout_ms=5) == Answer(OK, 9, 2)
    assert world.entry.fields.transaction_timeout_ms == 5


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_within_its_bounds(timeout_ms: int) -> None:
    """Rule T.11."""
    world = World()
    assert world.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not world.shard.entries


def test_the_empty_id_is_no_id() -> None:
    """Rule T.10."""
    assert World().init(name="").error_code == ErrorCode.INVALID_REQUEST


def test_a_producer_that_goes_on_gets_the_next_epoch_also_if_it_asks_twice() -> None:
    """Rule T.16 (KIP-360)."""
    world = World()
    world.init()
    assert world.init(9, 0) == Answer(OK, 9, 1)
    assert world.init(9, 0) == Answer(OK, 9, 1)
    assert world.init(9, 1) == Answer(OK, 9, 2)


def test_a_producer_of_the_past_is_fenced() -> None:
    """Rules T.13 and T.16."""
    world = World()
    world.init()
    world.init()
    assert world.init(9, 0).error_code == ErrorCode.PRODUCER_FENCED
    assert world.init(8, 1).error_code == ErrorCode.PRODUCER_FENCED
    fenced = [event for event in world.events if isinstance(event, ProducerFenced)]
    assert [(event.producer_id, event.producer_epoch, event.current_epoch) for event in fenced] == [
        (9, 0, 1),
        (8, 1, 1),
    ]


def test_an_id_that_was_forgotten_takes_the_producer_it_had() -> None:
    """Rule T.13."""
    assert World().init(77, 5) == Answer(OK, 9, 0)


def test_after_a_restart_a_repeated_request_is_fenced() -> None:
    """Rule T.31: the epoch before is in no record."""
    world = World()
    world.init()
    world.init(9, 0)
    world.restart()
    assert world.init(9, 0).error_code == ErrorCode.PRODUCER_FENCED
    assert world.init() == Answer(OK, 9, 2)


def test_the_last_epoch_brings_a_new_producer_id() -> None:
    """Rules T.8 and T.16."""
    world = World()
    world.bring(State.EMPTY, epoch=32_766)
    assert world.init() == Answer(OK, 10, 0)
    assert world.entry.fields.previous_producer_id == 9


def test_the_producer_whose_epochs_are_used_up_may_ask_twice() -> None:
    """Rules T.13 and T.16."""
    world = World()
    world.bring(State.EMPTY, epoch=32_766)
    assert world.init(9, 32_766) == Answer(OK, 10, 0)
    assert world.init(9, 32_766) == Answer(OK, 10, 0)
    assert world.init(9, 32_765).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize("version", [0, TV2])
def test_while_a_transaction_ends_the_next_producer_waits(state: State, version: int) -> None:
    """Rule T.14."""
    world = World()
    world.bring(state, version)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", [1, TV2])
def test_a_new_producer_aborts_the_transaction_of_the_old_one(version: int) -> None:
    """Rules T.15, T.28 and T.29: the epoch of the abort is given to nobody."""
    world = World(transaction_version=version)
    producer_id, epoch = world.bring(State.ONGOING, version)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.state is State.COMPLETE_ABORT
    assert [sent[1:4] for sent in world.sent] == [(producer_id, epoch + 1, False)]
    assert world.init() == Answer(OK, producer_id, epoch + 2)
    assert [event.reason for event in world.events if isinstance(event, TransactionEnded)] == [EndReason.FENCED]


def test_the_last_epoch_can_still_be_fenced() -> None:
    """Rules T.8 and T.26: a fence takes no new producer id."""
    world = World()
    producer_id, _ = world.bring(State.ONGOING, TV2, epoch=32_766)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.producer == (producer_id, 32_767)
    assert world.init() == Answer(OK, producer_id + 1, 0)


def test_one_change_at_a_time() -> None:
    """Rule T.6."""
    world = World(flows=False)
    first = world.ask(InitProducerId(ID, MINUTE))
    assert world.answer(InitProducerId(ID, MINUTE)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert first not in world.answers
    world.flow()
    assert world.answers[first] == Answer(OK, 9, 0)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_fails_changes_nothing(error: ErrorCode, told: ErrorCode) -> None:
    """Rule T.4."""
    world = World()
    world.init()
    world.flows = False
    asked = world.ask(InitProducerId(ID, MINUTE))
    world.write_next(error)
    assert world.answers[asked].error_code == told
    assert world.producer == (9, 0)
    assert world.entry.pending is None


@pytest.mark.parametrize(("version", "after"), [(1, 1), (TV2, 0)])
def test_a_fence_that_cannot_be_written_takes_its_epoch_once(version: int, after: int) -> None:
    """Rules T.28 and T.29."""
    world = World(transaction_version=version)
    world.bring(State.ONGOING, version)
    world.flows = False
    for _ in range(2):
        world.ask(InitProducerId(ID, MINUTE))
        world.write_next(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert (world.state, world.producer) == (State.ONGOING, (9, after))
    world.flows = True
    world.init()
    assert (world.state, world.producer) == (State.COMPLETE_ABORT, (9, 1))


def test_without_a_producer_id_to_give_nothing_changes() -> None:
    """Rule T.12."""
    world = World()

    def fail() -> int:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")

    world.shard.new_producer_id = fail
    assert world.init().error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not world.shard.entries


def test_a_request_that_would_have_to_come_again_waits_instead() -> None:
    """Rules T.15 and T.88: one answer, when the old transaction is over."""
    world = World(transaction_park_ms=100)
    producer_id, epoch = world.bring(State.ONGOING, TV2)
    world.flows = False
    asked = world.ask(InitProducerId(ID, MINUTE))
    world.write_next()
    assert asked not in world.answers
    world.flow()
    assert world.answers[asked] == Answer(OK, producer_id, epoch + 2)


def test_it_does_not_wait_for_long() -> None:
    """Rule T.88."""
    world = World(transaction_park_ms=100)
    world.bring(State.PREPARE_COMMIT)
    asked = world.ask(InitProducerId(ID, MINUTE))
    world.advance(99)
    assert asked not in world.answers
    world.advance(1)
    assert world.answers[asked].error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.flow()
    world.flows = True
    assert world.init() == Answer(OK, 9, 1)


def test_who_waits_is_served_in_order() -> None:
    """Rule T.88."""
    world = World(transaction_park_ms=100)
    producer_id, epoch = world.bring(State.PREPARE_COMMIT)
    first, second = world.ask(InitProducerId(ID, MINUTE)), world.ask(InitProducerId(ID, MINUTE))
    repeated = world.ask(EndTxn(ID, producer_id, epoch, True))
    world.flow()
    assert world.answers[first] == Answer(OK, 9, 1)
    assert world.answers[second] == Answer(OK, 9, 2)
    assert world.answers[repeated].error_code == ErrorCode.PRODUCER_FENCED


def test_few_wait_for_one_id() -> None:
    """Rule T.88."""
    world = World(transaction_park_ms=100)
    world.bring(State.PREPARE_COMMIT)
    asked = [world.ask(InitProducerId(ID, MINUTE)) for _ in range(65)]
    assert [token for token in asked if token in world.answers] == asked[64:]
