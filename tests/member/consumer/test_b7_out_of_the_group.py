"""Fenced, refused, too late, or leaving."""

from __future__ import annotations

import pytest

from equipoise.member import CommitFailedError, CommitFailure, FencedInstanceIdError
from equipoise.member.consumer.states import TRANSITIONS, MemberState
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode, UsageError
from tests.member.alone import places
from tests.member.consumer.lone import BACKOFF, INTERVAL, MAX_POLL, ME, Lone, by_id

FENCING = [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH]
FATAL = [
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
]


# -- B5: errors


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_b5_15_the_coordinator_is_looked_for_and_hears_all(error: ErrorCode) -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(0, error=error)
    lone.advance(BACKOFF)
    assert lone.asked(FindCoordinatorRequest) is not None
    lone.find()
    assert lone.heartbeat.subscribed_topic_names == ["t"]
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))
    assert lone.member.readable == places(0)


def test_b5_14_a_coordinator_that_loads_is_asked_again_after_a_pause() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(0, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert lone.silent
    lone.advance(BACKOFF)
    assert lone.heartbeat.subscribed_topic_names == ["t"]


def test_b5_29_a_topic_that_is_denied_is_told_and_tried_again() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    lone.poll()
    assert lone.failure is not None
    assert lone.failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert lone.state is MemberState.STABLE
    lone.advance(BACKOFF)
    lone.beat(1)
    lone.poll()
    assert lone.failure is None


@pytest.mark.parametrize("error", [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_b5_111_what_may_pass_is_tried_three_times_before_it_is_fatal(error: ErrorCode) -> None:
    lone = Lone(group_instance_id="i").joining()
    for pause in (100, 200, 400):
        lone.beat(error=error)
        lone.poll()
        assert lone.failure is None
        lone.advance(pause)
    lone.beat(error=error)
    lone.poll()
    assert lone.failure is not None
    assert lone.failure.code is error
    assert lone.state is MemberState.FATAL


def test_b5_69_while_it_leaves_an_unknown_group_is_left() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    lone.unsubscribe()
    lone.beat(error=ErrorCode.GROUP_ID_NOT_FOUND)
    lone.poll()
    assert lone.told == [("on_lost", places(0))]
    assert lone.member.has_left
    assert lone.silent


# -- B7: fenced


@pytest.mark.parametrize("error", FENCING)
def test_b7_1_fenced_all_is_lost_and_it_joins_again_with_its_member_id(error: ErrorCode) -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(0, error=error)
    assert lone.state is MemberState.FENCED
    assert lone.member.readable == places()
    assert lone.silent
    lone.poll()
    assert lone.told == [("on_lost", places(0, 1))]
    join = lone.heartbeat
    assert (join.member_epoch, join.member_id, join.topic_partitions) == (0, ME, [])
    assert join.subscribed_topic_names == ["t"]
    lone.beat(5, 1)
    lone.poll()
    assert lone.member.readable == places(1)
    assert lone.member.generation_id == 5


@pytest.mark.parametrize("error", FENCING)
def test_b7_1_fenced_with_nothing_to_lose_it_joins_at_once(error: ErrorCode) -> None:
    lone = Lone().stable()
    lone.told_by_heartbeat(0, error=error)
    assert lone.heartbeat.member_epoch == 0


@pytest.mark.parametrize("error", FENCING)
def test_b7_2_fenced_while_it_leaves_it_neither_joins_again_nor_says_goodbye(error: ErrorCode) -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    lone.unsubscribe()
    lone.beat(error=error)
    lone.poll()
    assert lone.told == [("on_lost", places(0))]
    assert lone.member.has_left
    lone.advance(10 * INTERVAL)
    assert lone.silent


def test_b7_3_commits_under_way_fail_and_so_do_later_ones() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    commit = lone.commit(p0=1)
    lone.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)
    for one in (commit, lone.commit(p0=2)):
        assert isinstance(one.error, CommitFailedError)
        assert one.error.failure is CommitFailure.FENCED_EPOCH


# -- B8: fatal


@pytest.mark.parametrize("error", FATAL)
def test_b8_1_a_fatal_error_is_raised_by_every_poll_and_close_sends_nothing(error: ErrorCode) -> None:
    lone = Lone(group_instance_id="i").stable(0)
    lone.told_by_heartbeat(0, error=error)
    for _ in range(2):
        lone.poll()
        assert lone.failure is not None
        assert lone.failure.code is error
        assert isinstance(lone.failure, FencedInstanceIdError) is (error is ErrorCode.FENCED_INSTANCE_ID)
    assert lone.told == [("on_lost", places(0))]
    lone.advance(MAX_POLL)
    assert lone.silent
    lone.do(lone.member.close(lone.now))
    assert lone.silent
    assert lone.member.has_left
    assert lone.member.next_deadline() is None


def test_b8_1_an_error_of_a_newer_broker_is_fatal_after_retries() -> None:
    lone = Lone().joining()
    lone.beat(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert lone.state is MemberState.FATAL


def test_b2_4_a_broker_without_consumer_groups_is_named_with_the_advice() -> None:
    lone = Lone().joining()
    lone.beat(error=ErrorCode.UNSUPPORTED_VERSION)
    lone.poll()
    assert lone.failure is not None
    assert "group.protocol=classic" in str(lone.failure)


def test_b2_2_a_rebalance_cannot_be_enforced() -> None:
    with pytest.raises(UsageError, match=r"group\.protocol=consumer"):
        Lone().stable(0).member.enforce_rebalance("now", 0)


# -- B9: polls that come too late


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_b9_2_too_late_it_leaves_at_once_and_tells_of_the_loss_at_the_next_poll(
    instance: str | None, epoch: int
) -> None:
    lone = Lone(group_instance_id=instance).stable(0)
    beating(lone, MAX_POLL - 1)
    assert lone.state is MemberState.STABLE
    lone.advance(1)
    leave = lone.heartbeat
    assert (leave.member_epoch, leave.instance_id) == (epoch, instance)
    assert lone.state is MemberState.STALE
    assert lone.member.readable == places()
    assert lone.told == []
    lone.beat(epoch)
    lone.advance(MAX_POLL)
    assert lone.silent
    lone.poll()
    assert lone.told == [("on_lost", places(0))]
    assert lone.heartbeat.member_epoch == 0
    assert lone.heartbeat.topic_partitions == []


def beating(lone: Lone, ms: int) -> None:
    """Time passes with all heartbeats answered."""
    end = lone.now + ms
    while lone.now < end:
        lone.advance(min(INTERVAL, end - lone.now))
        if lone.asked(ConsumerGroupHeartbeatRequest) is not None:
            lone.beat(lone.member.member_epoch)


def test_b9_2_a_commit_after_that_says_by_how_much_it_was_too_late() -> None:
    lone = Lone().stable(0)
    lone.poll(records=7)
    beating(lone, MAX_POLL)
    lone.advance(40)
    commit = lone.commit(p0=1)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.overrun is not None
    assert (commit.error.overrun.late_ms, commit.error.overrun.records) == (40, 7)


def test_b9_1_the_time_of_a_callback_counts() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(2, 0, 1)
    lone.during("on_assigned", lambda: beating(lone, MAX_POLL))
    lone.poll()
    assert lone.told == [("on_assigned", places(1)), ("on_lost", places(0, 1))]


# -- B10: leaving


def test_b10_1_all_is_revoked_then_commits_go_through_then_it_leaves() -> None:
    commits = list[object]()
    lone = Lone().stable(0, 1)
    lone.during("on_revoked", lambda: commits.append(lone.commit(p0=3)))
    lone.unsubscribe()
    assert lone.state is MemberState.PREPARE_LEAVING
    lone.poll()
    assert lone.told == [("on_revoked", places(0, 1))]
    assert lone.asked(ConsumerGroupHeartbeatRequest) is None
    lone.committed()
    assert lone.heartbeat.member_epoch == -1
    assert lone.state is MemberState.UNSUBSCRIBED
    assert not lone.member.has_left
    lone.beat(-1)
    assert lone.member.has_left
    assert lone.member.next_deadline() is None


def test_b10_1_heartbeats_go_on_while_the_application_gives_up_its_partitions() -> None:
    lone = Lone().stable(0)
    lone.unsubscribe()
    lone.advance(INTERVAL)
    assert lone.heartbeat.member_epoch == 1
    assert lone.heartbeat.subscribed_topic_names is None
    assert lone.heartbeat.topic_partitions is None


def test_b10_1_a_join_without_answer_is_left_too() -> None:
    lone = Lone().joining()
    lone.unsubscribe()
    assert lone.heartbeat.member_epoch == -1
    assert lone.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize(
    ("instance", "leave", "epoch"),
    [(None, None, -1), (None, True, -1), (None, False, None), ("i", None, -2), ("i", True, -1), ("i", False, -2)],
)
def test_b10_3_what_is_said_at_the_end(instance: str | None, leave: bool | None, epoch: int | None) -> None:
    lone = Lone(group_instance_id=instance).stable(0)
    lone.unsubscribe(leave=leave)
    lone.poll()
    found = lone.asked(ConsumerGroupHeartbeatRequest)
    assert (None if found is None else found.member_epoch) == epoch
    assert found is None or found.instance_id == instance
    assert lone.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE])
def test_b10_5_whatever_the_answer_is_it_has_left(error: ErrorCode) -> None:
    lone = Lone().stable()
    lone.unsubscribe()
    lone.beat(-1, error=error)
    assert lone.member.has_left
    assert lone.silent
    assert lone.failure is None


def test_b10_5_without_a_coordinator_or_an_answer_it_has_left_all_the_same() -> None:
    lone = Lone().stable()
    lone.unsubscribe()
    lone.fail(lone.heartbeat)
    assert lone.member.has_left
    lone = Lone().stable()
    lone.advance(INTERVAL)
    lone.fail(lone.heartbeat)
    lone.unsubscribe()
    assert lone.member.has_left


def test_b5_1_the_late_answer_to_a_leave_is_not_adopted_by_the_next_membership() -> None:
    lone = Lone().stable()
    lone.unsubscribe()
    leave = lone.heartbeat
    lone.subscribe("t")
    lone.poll()
    join = lone.heartbeat
    assert join.member_epoch == 0
    lone.answer(leave, ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=-1))
    assert lone.state is MemberState.JOINING
    lone.beat(-1)
    assert lone.state is MemberState.JOINING
    assert lone.member.member_epoch == 0


def test_b1_1_every_way_of_the_table_is_between_states_and_no_state_is_without_a_way() -> None:
    reached = {target for _, target in TRANSITIONS}
    left = {origin for origin, _ in TRANSITIONS}
    assert reached == set(MemberState)
    assert left == set(MemberState) - {MemberState.FATAL}
