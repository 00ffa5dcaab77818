"""The state machine of a transactional producer: which call is allowed in which state, and what errors do to it."""

from __future__ import annotations

import itertools

import pytest

from equipoise.client.transactions import verdicts
from equipoise.client.transactions.states import TRANSITIONS, TransactionState
from equipoise.client.transactions.transaction import Transaction
from equipoise.client.transactions.verdicts import TransactionVerdict, verdict_on
from equipoise.errors import (
    ErrorCode,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionFatalError,
    UsageError,
)
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import IllegalTransition

PLACE = TopicPartition("orders", 0)
S, V = TransactionState, TransactionVerdict


def ready(version: int = 2) -> Transaction:
    one = Transaction("mine", 60_000)
    one.init_begins()
    one.initialized(9, 0, version)
    return one


def open_one(version: int = 2) -> Transaction:
    one = ready(version)
    one.begin()
    return one


def test_a_transaction_goes_round() -> None:
    one = open_one()
    assert one.may_send_to(PLACE)
    one.commit_begins()
    one.ended(9, 1)
    assert (one.state, one.producer_id, one.producer_epoch) == (S.READY, 9, 1)
    assert not one.must_end


def test_a_version_that_adds_by_request_sends_nothing_before() -> None:
    one = open_one(1)
    assert not one.may_send_to(PLACE)
    assert not one.must_end  # EndTxn of nothing is an error there
    one.added([PLACE])
    assert one.may_send_to(PLACE)
    one.commit_begins()
    one.ended(-1, -1)
    assert (one.producer_epoch, one.may_send_to(PLACE)) == (0, False)


def test_offsets_alone_must_be_ended_too() -> None:
    one = open_one()
    one.add_group("billing")
    assert one.must_end
    assert one.has_group("billing")


def test_a_group_without_an_answer_is_neither_there_nor_forgotten() -> None:
    one = open_one(1)
    one.ask_group("billing")
    assert one.must_end  # the coordinator may know of it
    assert not one.has_group("billing")
    assert one.asked_groups == ["billing"]
    one.add_group("billing")
    assert one.has_group("billing")
    assert one.asked_groups == []


def test_a_refused_group_alone_leaves_nothing_to_end() -> None:
    one = open_one(1)
    one.ask_group("billing")
    one.drop_group("billing")
    assert not one.must_end
    assert one.asked_groups == []


@pytest.mark.parametrize("call", ["begin", "check_send", "commit_begins", "abort_begins", "init_begins"])
def test_a_fatal_error_lasts(call: str) -> None:
    one = open_one()
    one.fail(ErrorCode.PRODUCER_FENCED, "EndTxn was refused")
    for _ in range(2):
        with pytest.raises(ProducerFencedError, match="Close this producer"):
            getattr(one, call)()


def test_an_abortable_error_leaves_the_abort_alone() -> None:
    one = open_one()
    one.may_send_to(PLACE)
    one.lose_batch(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large"), is_numbered=True)
    for call in (one.check_send, one.commit_begins):
        with pytest.raises(TransactionAbortableError, match="abort it, then begin it anew"):
            call()
    with pytest.raises(UsageError, match="one is open"):
        one.begin()
    one.abort_begins()
    one.ended(9, 1)
    one.begin()
    assert one.state is S.IN_TRANSACTION
    assert one.error is None


def test_a_gap_needs_a_new_epoch_where_the_end_brings_none() -> None:
    for version, state in ((2, S.READY), (1, S.INITIALIZING)):
        one = open_one(version)
        one.added([PLACE])
        one.lose_batch(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "late"), is_numbered=True)
        one.abort_begins()
        one.ended(9, 1)
        assert one.state is state
    other = open_one(1)
    other.lose_batch(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "never sent"), is_numbered=False)
    other.abort_begins()
    other.ended(-1, -1)
    assert other.state is S.READY


def test_a_commit_without_an_answer_can_only_be_made_again() -> None:
    one = open_one()
    one.commit_begins()
    one.commit_begins()
    with pytest.raises(UsageError, match="its commit is under way"):
        one.abort_begins()
    with pytest.raises(UsageError, match=r"call commit_transaction\(\) again"):
        one.begin()
    other = open_one()
    other.abort_begins()
    other.abort_begins()
    with pytest.raises(UsageError, match=r"call abort_transaction\(\) again"):
        other.begin()


def test_a_late_error_of_a_batch_does_not_disturb_an_abort() -> None:
    one = open_one()
    one.abort_begins()
    one.lose_batch(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "old"), is_numbered=True)
    assert one.state is S.ABORTING_TRANSACTION


def test_a_batch_can_be_fatal() -> None:
    one = open_one()
    one.lose_batch(KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "gone"), is_numbered=True)
    assert one.state is S.FATAL_ERROR
    assert isinstance(one.error, TransactionFatalError)


def test_what_is_not_in_the_table_is_a_bug() -> None:
    for origin, target in itertools.product(S, S):
        one = Transaction("mine", 60_000)
        one.state = origin
        if (origin, target) in TRANSITIONS:
            one._move(target)
            assert one.state is target
        else:
            with pytest.raises(IllegalTransition, match="no way from"):
                one._move(target)


def test_every_state_can_be_left_but_the_last() -> None:
    for state in S:
        assert any(origin is state for origin, _ in TRANSITIONS) == (state is not S.FATAL_ERROR)


TABLES = {name: table for name, table in vars(verdicts).items() if name[0] != "_" and isinstance(table, dict)}


def test_errors_are_taken_as_the_java_producer_takes_them() -> None:
    """The rows that differ by request."""
    for table in TABLES.values():
        assert verdict_on(ErrorCode.NONE, table) is V.DONE
        assert verdict_on(ErrorCode.CONCURRENT_TRANSACTIONS, table) is V.SOON
        assert verdict_on(ErrorCode.NOT_COORDINATOR, table) is V.COORDINATOR_GONE
        for code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE):
            assert verdict_on(code, table) is V.FATAL
        assert verdict_on(ErrorCode.INVALID_PRODUCER_ID_MAPPING, table) is V.FATAL
        assert verdict_on(32_000, table) is V.FATAL
    for code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
        assert verdict_on(code, verdicts.TXN_OFFSET_COMMIT) is V.ABORTABLE
    assert verdict_on(ErrorCode.TRANSACTION_ABORTABLE, verdicts.COMMIT_TXN) is V.ABORTABLE
    assert verdict_on(ErrorCode.TRANSACTION_ABORTABLE, verdicts.ABORT_TXN) is V.FATAL
    assert verdict_on(ErrorCode.TOPIC_AUTHORIZATION_FAILED, verdicts.ADD_PARTITIONS_TO_TXN) is V.ABORTABLE
    assert len(TABLES) == 9
