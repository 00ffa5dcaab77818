"""Rule 9.2: when a member sends heartbeats, and what it makes of silence."""

from __future__ import annotations

from equipoise.member import MemberState
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.member.solo import BACKOFF, HEARTBEAT, ME, SESSION, Solo, cooperative


def test_9_2_heartbeats_begin_with_the_answer_to_join_group() -> None:
    solo = Solo().joining()
    solo.advance(HEARTBEAT * 3)
    assert solo.asked(HeartbeatRequest) is None
    solo.join(generation=7)
    solo.advance(HEARTBEAT)
    request = solo.asked(HeartbeatRequest)
    assert request is not None
    assert (request.generation_id, request.member_id) == (7, ME)
    assert solo.member.state is MemberState.COMPLETING_REBALANCE


def test_9_2_4_the_first_heartbeat_of_a_generation_leaves_with_the_assignment() -> None:
    solo = Solo().completing()
    assert solo.asked(HeartbeatRequest) is None
    solo.sync(0)
    assert solo.asked(HeartbeatRequest) is not None


def test_9_2_one_at_each_interval_and_one_at_a_time() -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT - 1)
    assert solo.asked(HeartbeatRequest) is None
    solo.advance(1)
    solo.advance(HEARTBEAT * 2)  # asked() finds no second one
    solo.beat()
    assert solo.asked(HeartbeatRequest) is not None


def test_9_2_none_while_a_join_is_under_way_and_a_late_answer_to_one_is_ignored() -> None:
    solo = cooperative().stable(0)
    solo.advance(HEARTBEAT)
    solo.do(solo.member.enforce_rebalance("now", solo.now))
    assert solo.asked(JoinGroupRequest) is not None
    solo.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    solo.advance(HEARTBEAT * 3)
    assert solo.asked(HeartbeatRequest) is None
    assert solo.member.state is MemberState.PREPARING_REBALANCE


def test_9_2_a_session_without_an_answer_makes_it_look_for_the_coordinator() -> None:
    solo = Solo().stable(0)
    solo.advance(SESSION - 1)
    assert solo.member.coordinator is not None
    solo.advance(1)
    assert solo.member.coordinator is None
    solo.advance(BACKOFF)
    assert solo.asked(FindCoordinatorRequest) is not None
    assert solo.member.state is MemberState.STABLE


def test_9_2_rebalance_in_progress_is_a_sign_of_life() -> None:
    solo = Solo().stable(0)
    for _ in range(2 * SESSION // HEARTBEAT):
        solo.told_to_rejoin()
    assert solo.member.coordinator is not None


def test_9_2_a_heartbeat_that_fails_is_repeated_when_the_coordinator_is_found() -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.fail(HeartbeatRequest)
    solo.advance(BACKOFF)
    solo.find(node_id=2)
    assert solo.asked(HeartbeatRequest) is not None


def test_9_2_pauses_double_from_retry_backoff_to_its_maximum_and_begin_anew_after_success() -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    pauses = []
    for _ in range(6):
        before = solo.now
        solo.find(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        while solo.asked(FindCoordinatorRequest) is None:
            solo.advance(1)
        pauses.append(solo.now - before)
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
    solo.find()
    solo.join(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    solo.advance(BACKOFF)
    assert solo.asked(JoinGroupRequest) is not None


def test_9_2_a_pause_that_ends_with_nothing_to_do_is_over() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    solo.learn(covered=frozenset({"t"}), t=3)
    solo.subscribe(pattern="t.*")  # it joins when it knows all topics
    solo.advance(10_000)
    assert solo.silent
    assert solo.member.heartbeats.next_deadline(can_send=True) > solo.now + 1_000_000


def test_9_2_jitter_is_given_from_outside() -> None:
    solo = Solo().subscribe("t")
    solo.member.coordination._jitter = lambda: 1.2
    solo.poll()
    solo.fail(FindCoordinatorRequest)
    assert solo.member.next_deadline() == 120
