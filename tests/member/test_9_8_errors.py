"""Rule 9.8: what each error means in each answer. OffsetFetch is the consumer's.

Meant otherwise than in Java: SyncGroup answered COORDINATOR_LOAD_IN_PROGRESS does not come out of poll().
"""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.member import FencedInstanceIdError, MemberState
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.solo import BACKOFF, HEARTBEAT, ME, Solo, cooperative

LOADING, GONE, MOVED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
OLD, UNKNOWN, REBALANCE, FENCED = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
)


def member_id_of_join(solo: Solo) -> str | None:
    request = solo.asked(JoinGroupRequest)
    return None if request is None else request.member_id


def rejoining() -> Solo:
    """A cooperative member of generation 1 whose second JoinGroup is under way."""
    solo = cooperative(group_instance_id="i").stable(0)
    solo.told_to_rejoin()
    return solo


def raises(solo: Solo, error: ErrorCode) -> None:
    solo.poll()
    assert solo.failure is not None
    assert solo.failure.code is error
    assert error.name in str(solo.failure) or error is FENCED


# -- JoinGroup


def test_9_8_join_14_after_a_pause_again() -> None:
    solo = rejoining()
    solo.join(error=LOADING)
    assert solo.silent
    solo.advance(BACKOFF)
    assert member_id_of_join(solo) == ME
    assert solo.member.assignment == places(0)


@pytest.mark.parametrize("error", [GONE, MOVED])
def test_9_8_join_15_16_the_coordinator_is_looked_for_then_again(error: ErrorCode) -> None:
    solo = rejoining()
    solo.join(error=error)
    assert solo.member.coordinator is None
    solo.advance(BACKOFF)
    solo.find(node_id=2)
    assert member_id_of_join(solo) == ME
    assert solo.member.assignment == places(0)


def test_9_8_join_25_at_once_as_nobody_and_all_is_lost() -> None:
    solo = rejoining()
    solo.join(error=UNKNOWN)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    assert member_id_of_join(solo) == ""


def test_9_8_join_27_at_once_again() -> None:
    solo = rejoining()
    solo.join(error=REBALANCE)
    assert member_id_of_join(solo) == ME


def test_9_8_join_79_at_once_with_the_id_it_was_given() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.MEMBER_ID_REQUIRED)
    assert member_id_of_join(solo) == ME


@pytest.mark.parametrize(
    "error",
    [
        OLD,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_9_8_join_22_23_24_26_81_30_35_and_anything_else_comes_out_of_poll(error: ErrorCode) -> None:
    solo = Solo().joining()
    solo.join(error=error)
    raises(solo, error)


def test_9_8_join_35_says_which_setting_the_broker_is_too_old_for() -> None:
    solo = Solo(group_instance_id="i").joining()
    solo.join(error=ErrorCode.UNSUPPORTED_VERSION)
    solo.poll()
    assert "group.instance.id" in str(solo.failure)


def test_9_8_join_of_another_protocol_type_is_no_consumer_group() -> None:
    solo = Solo().joining()
    solo.join(protocol_type="connect")
    raises(solo, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_9_8_an_error_that_has_no_name_here_comes_out_of_poll_too() -> None:
    solo = Solo().joining()
    solo.join(error=9_999)  # type: ignore[arg-type]
    raises(solo, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_9_8_what_went_wrong_with_joining_is_not_raised_when_the_consumer_has_unsubscribed() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    solo.do(solo.member.unsubscribe(solo.now))
    solo.poll()
    assert solo.failure is None


# -- SyncGroup


def test_9_8_sync_14_it_joins_again_after_a_pause() -> None:
    solo = Solo().completing()
    solo.sync(error=LOADING)
    solo.poll()
    assert solo.failure is None
    assert solo.asked(JoinGroupRequest) is None
    solo.advance(BACKOFF)
    assert member_id_of_join(solo) == ME


@pytest.mark.parametrize("error", [GONE, MOVED])
def test_9_8_sync_15_16_the_coordinator_is_looked_for_then_it_joins_again(error: ErrorCode) -> None:
    solo = Solo().completing()
    solo.sync(error=error)
    solo.advance(BACKOFF)
    solo.find(node_id=2)
    assert member_id_of_join(solo) == ME


@pytest.mark.parametrize(("error", "member_id"), [(OLD, ME), (UNKNOWN, "")])
def test_9_8_sync_22_25_it_joins_at_once_without_its_generation_and_with_25_as_nobody(
    error: ErrorCode, member_id: str
) -> None:
    solo = rejoining()
    solo.join(2)
    solo.sync(error=error)
    assert solo.member.generation_id == -1
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    assert member_id_of_join(solo) == member_id


def test_9_8_sync_27_it_joins_at_once_and_keeps_what_it_has() -> None:
    solo = rejoining()
    solo.join(2)
    solo.sync(error=REBALANCE)
    assert member_id_of_join(solo) == ME
    assert solo.member.readable == places(0)


@pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_9_8_sync_23_30_come_out_of_poll(error: ErrorCode) -> None:
    solo = Solo().completing()
    solo.sync(error=error)
    raises(solo, error)


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "roundrobin"}])
def test_9_8_sync_of_another_protocol(fields: dict[str, Any]) -> None:
    solo = Solo().completing()
    solo.sync(0, **fields)
    raises(solo, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def test_9_8_old_brokers_name_no_protocol() -> None:
    solo = Solo().joining()
    solo.join(protocol_type=None)
    solo.sync(0, protocol_type=None, protocol_name=None)
    assert solo.member.state is MemberState.STABLE


def test_9_8_an_assignor_that_was_not_offered_cannot_be_used() -> None:
    solo = Solo().joining()
    solo.join(protocol_name="sticky", members={ME: ["t"]})
    solo.poll()
    assert "which this member has not offered" in str(solo.failure)


# -- Heartbeat


@pytest.mark.parametrize("error", [LOADING, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_9_8_heartbeat_14_30_after_a_pause_again(error: ErrorCode) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(error)
    solo.poll()
    assert solo.failure is None
    solo.advance(BACKOFF)
    assert solo.asked(HeartbeatRequest) is not None


@pytest.mark.parametrize("error", [GONE, MOVED])
def test_9_8_heartbeat_15_16_the_coordinator_is_looked_for(error: ErrorCode) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(error)
    solo.advance(BACKOFF)
    assert solo.asked(FindCoordinatorRequest) is not None
    assert solo.member.state is MemberState.STABLE


@pytest.mark.parametrize(("error", "member_id"), [(OLD, ME), (UNKNOWN, "")])
def test_9_8_heartbeat_22_25_all_is_lost_and_it_joins_again(error: ErrorCode, member_id: str) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(error)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    assert member_id_of_join(solo) == member_id


def test_9_8_heartbeat_22_of_an_earlier_generation_is_ignored() -> None:
    solo = cooperative().stable(0)
    solo.advance(HEARTBEAT)
    late = solo.asked(HeartbeatRequest)
    solo.do(solo.member.enforce_rebalance("now", solo.now))
    solo.join(2)
    assert late is not None
    solo.beat(OLD)
    assert solo.member.generation_id == 2


@pytest.mark.parametrize("state", ["STABLE", "COMPLETING_REBALANCE"])
def test_9_8_heartbeat_27_it_joins_again_if_it_is_stable(state: str) -> None:
    solo = cooperative().stable(0) if state == "STABLE" else cooperative().completing()
    solo.advance(HEARTBEAT)
    solo.beat(REBALANCE)
    assert (solo.asked(JoinGroupRequest) is not None) is (state == "STABLE")


@pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_GROUP_ID])
def test_9_8_heartbeat_23_24_come_out_of_poll(error: ErrorCode) -> None:
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(error)
    raises(solo, error)


# -- 82


@pytest.mark.parametrize("api", ["join", "sync", "heartbeat"])
def test_9_8_82_is_for_good(api: str) -> None:
    solo = rejoining()
    if api == "join":
        solo.join(error=FENCED)
    else:
        solo.join(2)
        if api == "sync":
            solo.sync(error=FENCED)
        else:
            solo.advance(HEARTBEAT)
            solo.beat(FENCED)
    assert solo.member.readable == frozenset()
    for _ in range(2):
        raises(solo, FENCED)
        assert isinstance(solo.failure, FencedInstanceIdError)
    assert solo.told == [("on_lost", places(0))]
    solo.advance(1_000_000)
    assert solo.asked(JoinGroupRequest) is solo.asked(HeartbeatRequest) is solo.asked(FindCoordinatorRequest) is None
    solo.do(solo.member.close(solo.now))
    assert solo.member.has_left


def test_9_8_82_nothing_that_comes_later_outdoes_it() -> None:
    solo = rejoining()
    solo.commit(p0=1)
    solo.advance(1)
    solo.join(2)
    solo.advance(HEARTBEAT)
    solo.beat(GONE)
    solo.advance(BACKOFF)
    solo.sync(error=FENCED)
    solo.find(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    raises(solo, FENCED)


# -- FindCoordinator


@pytest.mark.parametrize("error", [LOADING, GONE, MOVED])
def test_9_8_find_14_15_16_again(error: ErrorCode) -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    solo.find(error)
    assert solo.silent
    solo.advance(BACKOFF)
    assert solo.asked(FindCoordinatorRequest) is not None


def test_9_8_find_without_an_answer_again() -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    solo.fail(FindCoordinatorRequest)
    solo.advance(BACKOFF)
    assert solo.asked(FindCoordinatorRequest) is not None


@pytest.mark.parametrize("error", [ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_9_8_find_24_30_come_out_of_poll(error: ErrorCode) -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    solo.find(error)
    raises(solo, error)
    solo.advance(BACKOFF)
    assert solo.asked(FindCoordinatorRequest) is not None


# -- no answer


@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_9_8_a_broken_connection_in_a_rebalance_it_joins_again_and_keeps_what_it_has(
    kind: type[JoinGroupRequest | SyncGroupRequest],
) -> None:
    solo = rejoining()
    if kind is SyncGroupRequest:
        solo.join(2)
    solo.fail(kind)
    solo.advance(BACKOFF)
    solo.find()
    assert member_id_of_join(solo) == ME
    assert solo.member.readable == places(0)


def test_9_8_what_was_given_up_says_nothing_of_the_coordinator_when_it_fails() -> None:
    solo = cooperative().stable(0)
    solo.advance(HEARTBEAT)
    solo.do(solo.member.enforce_rebalance("now", solo.now))
    solo.fail(HeartbeatRequest)
    assert solo.member.coordinator is not None
