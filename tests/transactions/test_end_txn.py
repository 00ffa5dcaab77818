"""Rules T.23 to T.36: EndTxn, markers, completion."""

from __future__ import annotations

import pytest

from equipoise.coordinator.transactions.events import EndReason, TransactionEnded
from equipoise.coordinator.transactions.expiry import COMPLETION_RETRY_MS
from equipoise.coordinator.transactions.requests import Answer, EndTxn
from equipoise.coordinator.transactions.states import (
    END_TV1,
    END_TV2,
    TRANSITIONS,
    State,
    Verdict,
    state_of,
)
from equipoise.wire.errors import ErrorCode
from tests.transactions.world import ID, T0, T1, TV2, World

OK = ErrorCode.NONE
ERRORS = {
    Verdict.BUSY: ErrorCode.CONCURRENT_TRANSACTIONS,
    Verdict.INVALID: ErrorCode.INVALID_TXN_STATE,
    Verdict.FENCED: ErrorCode.PRODUCER_FENCED,
}
NUMBERS = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]


def test_states_have_the_numbers_and_names_of_kafka() -> None:
    """Rule T.5."""
    assert [state.value for state in State] == [*NUMBERS, "PrepareEpochFence"]
    assert [state_of(number) for number in range(8)] == list(State)
    assert [State.EMPTY.number, State.PREPARE_EPOCH_FENCE.number] == [0, 7]
    assert state_of(8) is None
    assert state_of(-1) is None


def test_no_way_leads_out_of_a_decision_but_its_completion() -> None:
    """Rule T.6."""
    ways = [(origin, target) for origin, target in TRANSITIONS if origin in (State.PREPARE_COMMIT, State.PREPARE_ABORT)]
    assert ways == [
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        (State.PREPARE_ABORT, State.COMPLETE_ABORT),
    ]


def test_a_change_that_is_not_in_the_table_is_a_bug() -> None:
    """Rule T.6."""
    world = World()
    world.bring(State.EMPTY)
    with pytest.raises(AssertionError):
        world.entry.prepare(State.COMPLETE_COMMIT)


def check(world: World, verdict: Verdict, answer: Answer, written: int, told: tuple[int, int]) -> None:
    """`told`: what a decision tells."""
    if verdict in ERRORS:
        assert answer == Answer(ERRORS[verdict])
        assert len(world.log) == written
    elif verdict is Verdict.REPEATED:
        assert answer == Answer(OK, *world.producer)
        assert len(world.log) == written
    else:
        assert answer == Answer(OK, *told)
        assert len(world.log) > written


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", list(END_TV1))
def test_ends_before_transaction_version_2(state: State, commit: bool) -> None:
    """Rule T.23, the table."""
    world = World()
    producer = world.bring(state)
    world.flows = END_TV1[state][not commit] is Verdict.PREPARE
    written = len(world.log)
    check(world, END_TV1[state][not commit], world.end(*producer, commit), written, producer)


@pytest.mark.parametrize("is_repeated", [False, True])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", list(END_TV2))
def test_ends_in_transaction_version_2(state: State, commit: bool, is_repeated: bool) -> None:
    """Rules T.24 and T.25, the table: a repeated request has the epoch before."""
    world = World()
    world.bring(state, TV2, epoch=7)
    producer_id, epoch = world.producer
    verdict = END_TV2[state][(0 if commit else 2) + is_repeated]
    world.flows = verdict is Verdict.PREPARE
    written = len(world.log)
    answer = world.end(producer_id, epoch - is_repeated, commit, TV2)
    check(world, verdict, answer, written, (producer_id, epoch + 1))


@pytest.mark.parametrize("version", [0, TV2])
def test_only_the_producer_of_today_may(version: int) -> None:
    """Rules T.23 and T.24."""
    world = World()
    assert world.end(9, 0, version=version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.bring(State.ONGOING, version, epoch=7)
    assert world.end(8, 7, version=version).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(9, 5, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert world.end(9, 8, version=version).error_code == ErrorCode.PRODUCER_FENCED
    assert world.answer(EndTxn("", 9, 7, True, version)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "bump"), [(0, 0), (TV2, 1)])
def test_the_records_of_a_commit(version: int, bump: int) -> None:
    """Rules T.2, T.24, T.30 and T.32: the answer comes with the decision, markers carry its epoch, the end follows
    them."""
    world = World()
    producer_id, epoch = world.bring(State.EMPTY, version)
    world.add(producer_id, epoch, T0, T1, version=version)
    world.flows = False
    asked = world.ask(EndTxn(ID, producer_id, epoch, True, version))
    assert asked not in world.answers
    world.write_next()
    assert world.answers[asked] == Answer(OK, producer_id, epoch + bump)
    assert [sent[1:] for sent in world.markers] == [(producer_id, epoch + bump, True, {T0, T1}, version)]
    assert world.state is State.PREPARE_COMMIT
    world.run(world.shard.markers_written(ID, [T1], world.now))
    assert world.entry.fields.partitions == {T0}
    assert not world.writes
    world.run(world.shard.markers_written(ID, [T0], world.now))
    assert world.state is State.PREPARE_COMMIT
    world.write_next()
    assert world.state is State.COMPLETE_COMMIT
    statuses = [(one.transaction_status, one.producer_epoch) for one in world.records()]
    assert statuses == [(0, epoch), (1, epoch), (2, epoch + bump), (4, epoch + bump)]
    assert world.records()[-1].transaction_partitions == []


def test_an_abort_of_nothing_takes_an_epoch() -> None:
    """Rule T.25."""
    world = World()
    producer_id, epoch = world.bring(State.EMPTY)
    assert world.end(producer_id, epoch, False, TV2) == Answer(OK, producer_id, epoch + 1)
    assert [one.transaction_status for one in world.records()[-2:]] == [3, 5]
    assert world.records()[-2].transaction_start_timestamp_ms == world.now
    assert world.sent == []


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_brings_a_new_producer_id(commit: bool) -> None:
    """Rules T.26 and T.27: also if the client asks twice."""
    world = World()
    producer_id, _ = world.bring(State.ONGOING, TV2, epoch=32_766)
    answer = world.end(producer_id, 32_766, commit, TV2)
    assert answer == Answer(OK, producer_id + 1, 0)
    prepared, completed = world.records()[-2:]
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (9, 32_767, 10)
    assert (completed.producer_id, completed.producer_epoch, completed.previous_producer_id) == (10, 0, 9)
    assert completed.next_producer_id == -1
    assert [sent[1:3] for sent in world.sent] == [(producer_id, 32_767)]
    assert world.end(producer_id, 32_766, commit, TV2) == answer
    assert world.end(producer_id, 32_766, not commit, TV2).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_overflow_survives_a_crash_between_decision_and_markers() -> None:
    """Rules T.26, T.27 and T.75."""
    world = World()
    producer_id, _ = world.bring(State.ONGOING, TV2, epoch=32_766)
    world.flows = False
    world.ask(EndTxn(ID, producer_id, 32_766, True, TV2))
    world.write_next()
    world.flows = True
    world.restart()
    assert world.producer == (producer_id + 1, 0)
    assert world.end(producer_id, 32_766, True, TV2) == Answer(OK, producer_id + 1, 0)


def test_a_decision_that_cannot_be_written_is_none() -> None:
    """Rules T.4 and T.77."""
    world = World()
    producer = world.bring(State.ONGOING)
    world.flows = False
    asked = world.ask(EndTxn(ID, *producer, True))
    world.write_next(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.answers[asked].error_code == ErrorCode.NOT_COORDINATOR
    assert (world.state, world.sent) == (State.ONGOING, [])
    world.flows = True
    assert world.end(*producer, False).error_code == OK


def test_what_is_decided_stays_decided_if_its_completion_cannot_be_written() -> None:
    """Rule T.34."""
    world = World()
    producer = world.bring(State.PREPARE_COMMIT)
    world.mark_next()
    world.write_next(ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.state is State.PREPARE_COMMIT
    assert world.end(*producer, True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.flows = True
    world.restart()
    assert world.state is State.COMPLETE_COMMIT


def test_a_completion_that_cannot_be_written_is_written_again_and_again() -> None:
    """Rule T.34: the id was in its Prepare state until the next start."""
    world = World()
    world.bring(State.PREPARE_COMMIT)
    world.mark_next()
    for _ in range(2):
        world.write_next(ErrorCode.KAFKA_STORAGE_ERROR)
        assert world.writes == []
        world.advance(COMPLETION_RETRY_MS)
        assert (world.state, len(world.writes)) == (State.PREPARE_COMMIT, 1)
    world.write_next()
    assert world.state is State.COMPLETE_COMMIT


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_after_a_crash_a_decision_is_carried_out(state: State) -> None:
    """Rules T.32 and T.75: all markers are written again."""
    world = World()
    world.bring(State.EMPTY)
    world.bring(state, TV2)
    marked = list(world.sent)
    world.flows = True
    world.restart()
    assert world.sent == [*marked, *marked]
    assert world.state.value.startswith("Complete")


def test_markers_that_come_twice_end_nothing_twice() -> None:
    """Rule T.32."""
    world = World()
    world.bring(State.PREPARE_COMMIT)
    for _ in range(2):
        world.run(world.shard.markers_written(ID, [T0], world.now))
    assert len(world.writes) == 1
    world.flow()
    world.run(world.shard.markers_written(ID, [T0], world.now))
    world.run(world.shard.markers_written("nobody", [T0], world.now))
    assert world.state is State.COMPLETE_COMMIT


@pytest.mark.parametrize(("commit", "reason"), [(True, EndReason.COMMITTED), (False, EndReason.ABORTED)])
def test_an_event_says_who_has_ended_it(commit: bool, reason: EndReason) -> None:
    """Rule T.98."""
    world = World()
    producer = world.bring(State.ONGOING)
    world.advance(250)
    world.end(*producer, commit)
    (ended,) = [event for event in world.events if isinstance(event, TransactionEnded)]
    assert (ended.reason, ended.open_ms, ended.partitions) == (reason, 250, {T0})


def test_a_shard_that_is_not_loaded_says_so() -> None:
    """Rule T.75."""
    world = World()
    producer = world.bring(State.ONGOING)
    world.shard = world._new_shard()
    assert world.end(*producer).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.run(world.shard.activate(world.now))
    world.run(world.shard.close(world.now))
    assert world.end(*producer).error_code == ErrorCode.NOT_COORDINATOR


def test_who_waits_looks_elsewhere_when_the_shard_goes() -> None:
    """Rule T.30."""
    world = World(transaction_park_ms=100)
    producer = world.bring(State.PREPARE_COMMIT)
    asked = world.ask(EndTxn(ID, *producer, True))
    world.run(world.shard.close(world.now))
    assert world.answers[asked].error_code == ErrorCode.NOT_COORDINATOR
