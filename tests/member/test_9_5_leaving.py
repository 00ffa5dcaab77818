"""Rules 9.5 and 9.6: leaving by close() and unsubscribe(), and for not having polled in time."""

from __future__ import annotations

import pytest

from equipoise.member import CommitFailedError, CommitFailure, MemberState
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.solo import HEARTBEAT, ME, Solo, cooperative


def leave(solo: Solo, how: str) -> None:
    member = solo.member
    solo.do(member.close(solo.now) if how == "close" else member.unsubscribe(solo.now))


BOTH = pytest.mark.parametrize("how", ["close", "unsubscribe"])

# -- 9.5


@BOTH
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_9_5_stable_all_is_revoked_then_it_leaves_with_its_member_id_and_a_reason(how: str, assignor: str) -> None:
    solo = Solo(assignor).stable(0, 1)
    leave(solo, how)
    assert solo.asked(LeaveGroupRequest) is None
    solo.poll()
    assert solo.told == [("on_revoked", places(0, 1))]
    request = solo.asked(LeaveGroupRequest)
    assert request is not None
    who = request.members[0]
    assert (who.member_id, who.group_instance_id, bool(who.reason)) == (ME, None, True)
    assert not solo.member.has_left
    solo.left()
    assert solo.member.has_left
    assert solo.member.state is MemberState.UNJOINED


@BOTH
@pytest.mark.parametrize("answered_until", ["join", "sync"])
def test_9_5_in_a_rebalance_all_is_lost(how: str, answered_until: str) -> None:
    solo = cooperative().stable(0)
    solo.told_to_rejoin()
    if answered_until == "sync":
        solo.join(2)
    leave(solo, how)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    assert solo.asked(LeaveGroupRequest) is not None


@BOTH
def test_9_5_put_out_before_all_is_lost_and_nobody_is_told_goodbye(how: str) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    leave(solo, how)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    assert solo.asked(LeaveGroupRequest) is None
    assert solo.member.has_left


@BOTH
def test_9_5_a_static_member_stays(how: str) -> None:
    solo = Solo(group_instance_id="i").stable(0)
    leave(solo, how)
    solo.poll()
    assert solo.told == [("on_revoked", places(0))]
    assert solo.asked(LeaveGroupRequest) is None
    assert solo.member.has_left


@pytest.mark.parametrize(("instance", "leaves"), [("i", True), (None, False)])
def test_9_5_close_options_say_otherwise(instance: str | None, leaves: bool) -> None:
    solo = Solo(group_instance_id=instance).stable(0)
    solo.do(solo.member.close(solo.now, leave=leaves))
    solo.poll()
    assert (solo.asked(LeaveGroupRequest) is not None) is leaves


def test_9_5_a_member_that_has_only_been_given_an_id_leaves_with_it() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.MEMBER_ID_REQUIRED)
    leave(solo, "close")
    request = solo.asked(LeaveGroupRequest)
    assert request is not None
    assert request.members[0].member_id == ME


@BOTH
def test_9_5_a_member_of_an_old_generation_leaves_with_the_id_that_it_has_kept(how: str) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(ErrorCode.ILLEGAL_GENERATION)
    leave(solo, how)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    request = solo.asked(LeaveGroupRequest)
    assert request is not None
    assert request.members[0].member_id == ME


def test_9_5_one_that_nobody_knows_yet_just_goes() -> None:
    solo = Solo().joining()
    leave(solo, "close")
    assert solo.asked(LeaveGroupRequest) is None
    assert solo.member.has_left


def test_9_5_commits_under_way_go_through_before_it_leaves() -> None:
    solo = Solo().stable(0)
    commit = solo.commit(p0=5)
    leave(solo, "close")
    solo.poll()
    assert solo.asked(LeaveGroupRequest) is None
    solo.committed()
    assert commit.error is None
    assert solo.asked(LeaveGroupRequest) is not None


def test_9_5_a_commit_that_waits_for_a_rebalance_fails_when_it_leaves() -> None:
    solo = cooperative().stable(0)
    solo.told_to_rejoin()
    commit = solo.commit(p0=5)
    leave(solo, "close")
    solo.poll()
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.LEFT


def test_9_5_unsubscribed_inside_on_assigned_it_gives_back_what_it_has_just_got() -> None:
    solo = Solo().completing()
    solo.sync(0)
    solo.during("on_assigned", lambda: leave(solo, "unsubscribe"))
    solo.poll()
    assert solo.told == [("on_assigned", places(0)), ("on_revoked", places(0))]
    assert solo.asked(LeaveGroupRequest) is not None


def test_9_5_what_was_not_told_need_not_be_given_back() -> None:
    solo = Solo().completing()
    solo.sync(0)
    leave(solo, "close")
    solo.poll()
    assert solo.told == []
    assert solo.asked(LeaveGroupRequest) is not None


def test_9_5_without_a_coordinator_or_an_answer_it_leaves_all_the_same() -> None:
    gone, mute = Solo().stable(), Solo().stable()
    gone.advance(HEARTBEAT)
    gone.beat(ErrorCode.NOT_COORDINATOR)
    leave(gone, "close")
    leave(mute, "close")
    mute.fail(LeaveGroupRequest)
    assert gone.member.has_left
    assert mute.member.has_left


def test_9_5_a_closed_member_has_no_deadlines() -> None:
    solo = Solo().stable(0)
    leave(solo, "close")
    solo.poll()
    solo.left()
    assert solo.member.next_deadline() is None


def test_9_5_subscribed_again_it_joins_as_a_new_member_at_the_next_poll() -> None:
    solo = Solo().stable(0)
    leave(solo, "unsubscribe")
    solo.poll()
    solo.left()
    solo.subscribe("t")
    assert solo.silent
    solo.poll()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.member_id == ""


# -- 9.6


def late(solo: Solo, by: int = 0, records: int = 7) -> Solo:
    solo.stable(0, 1)
    solo.poll(records)
    for _ in range(3):
        solo.advance(HEARTBEAT)
        solo.beat()
    solo.advance(10_000 - 3 * HEARTBEAT + by)
    return solo


def test_9_6_in_time_nothing_happens() -> None:
    solo = late(Solo(max_poll_interval_ms=10_000), by=-1)
    assert solo.member.state is MemberState.STABLE
    solo.poll()
    assert solo.told == []


def test_9_6_a_dynamic_member_leaves_says_why_and_sends_no_more_heartbeats() -> None:
    solo = late(Solo(max_poll_interval_ms=10_000))
    request = solo.asked(LeaveGroupRequest)
    assert request is not None
    assert request.members[0].member_id == ME
    assert "max.poll.interval.ms" in (request.members[0].reason or "")
    solo.left()
    solo.advance(1_000_000)
    assert solo.silent
    assert solo.member.readable == frozenset()


def test_9_6_a_static_member_only_stops() -> None:
    solo = late(Solo(group_instance_id="i", max_poll_interval_ms=10_000))
    assert solo.silent
    assert solo.member.state is MemberState.UNJOINED
    solo.advance(1_000_000)
    assert solo.silent


def test_9_6_the_next_commit_says_which_deadline_passed_by_how_much_and_what_to_do() -> None:
    solo = late(Solo(max_poll_interval_ms=10_000, max_poll_records=20), by=2_500)
    error = solo.commit(p0=5).error
    assert isinstance(error, CommitFailedError)
    assert error.failure is CommitFailure.POLL_OVERRUN
    assert error.overrun is not None
    assert (error.overrun.late_ms, error.overrun.records) == (2_500, 7)
    assert str(error) == (
        "poll() was not called for max.poll.interval.ms (10000 ms): the deadline passed 2500 ms ago with 7 records in "
        "hand, and the member has left group g: its partitions belong to others now. Remedies: do the work on a record "
        "faster; raise max.poll.interval.ms (now 10000); lower max.poll.records (now 20); or hand records to more "
        "threads, pause(), and go on calling poll()."
    )


def test_9_6_a_static_member_has_not_left_and_the_error_does_not_say_so() -> None:
    solo = late(Solo(group_instance_id="i", max_poll_interval_ms=10_000))
    assert "has left" not in str(solo.commit(p0=5).error)
    assert "sends no more heartbeats" in str(solo.commit(p0=5).error)


def test_9_6_commits_in_flight_fail_at_once() -> None:
    solo = Solo(max_poll_interval_ms=10_000).stable(0)
    commit = solo.commit(p0=5)
    solo.advance(10_000)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.POLL_OVERRUN
    solo.committed()  # too late to change anything
    assert isinstance(commit.error, CommitFailedError)


@pytest.mark.parametrize("instance", [None, "i"])
def test_9_6_the_next_poll_tells_of_the_loss_and_joins_as_nobody(instance: str | None) -> None:
    solo = late(Solo(group_instance_id=instance, max_poll_interval_ms=10_000))
    solo.poll()
    assert solo.told == [("on_lost", places(0, 1))]
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert (request.member_id, request.group_instance_id) == ("", instance)


def test_9_6_a_callback_takes_its_own_time_too() -> None:
    solo = Solo(max_poll_interval_ms=10_000).stable(0)
    solo.told_to_rejoin()
    solo.during("on_revoked", lambda: solo.advance(10_000))
    solo.poll()
    assert solo.told == [("on_revoked", places(0))]
    assert solo.asked(LeaveGroupRequest) is not None
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.member_id == ""


def test_9_6_inside_poll_no_time_passes() -> None:
    solo = Solo(max_poll_interval_ms=10_000).stable()
    solo.do(solo.member.poll_begins(solo.now))
    solo.advance(20_000)
    assert solo.member.state is MemberState.STABLE
    assert solo.asked(HeartbeatRequest) is not None


def test_9_6_a_background_join_does_not_hide_that_nobody_polls() -> None:
    solo = cooperative(max_poll_interval_ms=10_000).stable(0)
    solo.told_to_rejoin()
    assert solo.asked(JoinGroupRequest) is not None
    solo.advance(10_000)
    assert solo.asked(LeaveGroupRequest) is not None
    assert solo.asked(OffsetCommitRequest) is None
