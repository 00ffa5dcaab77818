"""Rule 9.7: what becomes of a commit.

Meant otherwise than in Java: one commit is under way at a time, so asynchronous ones are tried again too, without
undoing newer ones; and those of a cooperative member wait for the end of a rebalance.
"""

from __future__ import annotations

import pytest

from equipoise.member import (
    Commit,
    CommitFailedError,
    CommitFailure,
    FencedInstanceIdError,
    MemberState,
    OffsetAndMetadata,
    RebalanceInProgressError,
    TopicPartition,
)
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.member.alone import places
from tests.member.solo import BACKOFF, HEARTBEAT, ME, Solo, cooperative


def failure(commit: Commit) -> CommitFailure:
    assert isinstance(commit.error, CommitFailedError), commit.error
    return commit.error.failure


def asked(solo: Solo) -> OffsetCommitRequest:
    request = solo.asked(OffsetCommitRequest)
    assert request is not None
    return request


def offsets(solo: Solo) -> dict[int, int]:
    return {row.partition_index: row.committed_offset for topic in asked(solo).topics for row in topic.partitions}


# -- success


def test_9_7_a_commit_carries_its_generation_member_and_instance() -> None:
    solo = Solo(group_instance_id="i").stable(0)
    wanted = {TopicPartition("t", 0): OffsetAndMetadata(5, "note", 3)}
    commit, step = solo.member.commit(wanted, solo.now)
    solo.do(step)
    request = asked(solo)
    row = request.topics[0].partitions[0]
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (1, ME, "i")
    assert (row.committed_offset, row.committed_metadata, row.committed_leader_epoch) == (5, "note", 3)
    assert not commit.is_done
    solo.committed()
    assert (commit.is_done, commit.error) == (True, None)


def test_9_7_nothing_to_commit_is_committed() -> None:
    assert Solo().commit().is_done


def test_9_7_one_at_a_time_in_order_and_the_callback_is_called_once() -> None:
    solo = Solo().stable(0)
    done: list[Commit] = []
    commits = [solo.commit(p0=at) for at in (1, 2)]
    for commit in commits:
        commit.on_done = done.append
    assert offsets(solo) == {0: 1}
    solo.committed()
    assert offsets(solo) == {0: 2}
    solo.committed()
    assert done == commits


# -- not STABLE


@pytest.mark.parametrize("until", ["join", "sync"])
def test_9_7_eager_in_a_rebalance(until: str) -> None:
    solo = Solo().joining() if until == "join" else Solo().completing()
    assert isinstance(solo.commit(p0=5).error, RebalanceInProgressError)


def test_9_7_a_rebalance_is_also_one_while_its_join_has_to_be_repeated() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert isinstance(solo.commit(p0=5).error, RebalanceInProgressError)


def test_9_7_not_rebalancing_and_no_member() -> None:
    assert failure(Solo().subscribe("t").commit(p0=5)) is CommitFailure.NOT_JOINED
    solo = Solo().stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert failure(solo.commit(p0=5)) is CommitFailure.EXPELLED


# -- answers


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_9_7_14_and_3_are_tried_again_until_default_api_timeout(error: ErrorCode) -> None:
    solo = Solo(max_poll_interval_ms=1_000_000, session_timeout_ms=1_000_000).stable(0)
    commit = solo.commit(p0=5)
    tries = 0
    while not commit.is_done:
        if solo.asked(OffsetCommitRequest) is not None:
            solo.committed(error)
            tries += 1
        solo.advance(BACKOFF)
    assert solo.now == 60_000
    assert tries == 63  # at 0, 0.1, 0.3, 0.7 and 1.5 s, then every second
    assert isinstance(commit.error, KafkaError)
    assert commit.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert "default.api.timeout.ms (60000 ms)" in str(commit.error)
    missing = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ("the cluster has no t-0." if missing else f"the coordinator answers {error.name}.") in str(commit.error)
    assert "reachable" not in str(commit.error)


def test_9_7_14_what_the_coordinator_answered_last_is_not_told_when_it_is_gone() -> None:
    solo = Solo(max_poll_interval_ms=1_000_000, session_timeout_ms=1_000_000).stable(0)
    commit = solo.commit(p0=5)
    solo.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    solo.advance(BACKOFF)
    solo.committed(ErrorCode.NOT_COORDINATOR)
    solo.advance(60_000)
    assert "is the coordinator reachable? Commit again" in str(commit.error)


@pytest.mark.parametrize(
    "error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT]
)
def test_9_7_15_16_and_7_the_coordinator_is_looked_for_and_asked_again(error: ErrorCode) -> None:
    solo = Solo().stable(0)
    commit = solo.commit(p0=5)
    solo.committed(error)
    assert solo.member.coordinator is None
    solo.advance(BACKOFF)
    solo.find(node_id=2)
    assert offsets(solo) == {0: 5}
    solo.committed()
    assert commit.error is None


def test_9_7_a_lost_answer_is_asked_for_again() -> None:
    solo = Solo().stable(0)
    commit = solo.commit(p0=5)
    solo.fail(OffsetCommitRequest)
    solo.advance(BACKOFF)
    solo.find()
    solo.committed()
    assert commit.error is None


@pytest.mark.parametrize(
    ("error", "expected", "member_id"),
    [
        (ErrorCode.ILLEGAL_GENERATION, CommitFailure.OLD_GENERATION, ME),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailure.EXPELLED, ""),
    ],
)
def test_9_7_22_and_25_in_its_generation_put_the_member_out(
    error: ErrorCode, expected: CommitFailure, member_id: str
) -> None:
    solo = Solo().stable(0)
    commits = [solo.commit(p0=5), solo.commit(p0=6)]
    solo.committed(error)
    assert [failure(commit) for commit in commits] == [expected, expected]
    solo.poll()
    assert solo.told == [("on_lost", places(0))]
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.member_id == member_id


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_9_7_22_and_25_when_the_member_is_already_on_its_way_are_the_rebalance(error: ErrorCode) -> None:
    """An eager member is on its way only when its commits are through."""
    solo = cooperative().stable(0)
    commit = solo.commit(p0=5)
    solo.told_to_rejoin()
    assert solo.member.state is MemberState.PREPARING_REBALANCE
    solo.committed(error)
    assert solo.member.state is MemberState.PREPARING_REBALANCE
    solo.join(2)
    solo.sync(0)
    assert asked(solo).generation_id_or_member_epoch == 2
    solo.committed()
    assert commit.error is None


def test_9_7_27_it_joins_again_with_its_generation() -> None:
    solo = Solo().stable(0)
    commit = solo.commit(p0=5)
    solo.committed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(commit.error, RebalanceInProgressError)
    assert solo.member.generation_id == 1
    solo.poll()
    assert solo.told == [("on_revoked", places(0))]
    assert solo.asked(JoinGroupRequest) is not None


def test_9_7_27_after_it_has_joined_again_is_no_reason_to_join_once_more() -> None:
    solo = cooperative().stable(0)
    solo.commit(p0=5)
    solo.told_to_rejoin()
    solo.committed(ErrorCode.REBALANCE_IN_PROGRESS)
    solo.join(2)
    solo.sync(0)
    assert solo.asked(JoinGroupRequest) is None
    assert solo.member.state is MemberState.STABLE


def test_9_7_82_is_for_good_for_the_commit_for_poll_and_for_all_that_follow() -> None:
    solo = Solo(group_instance_id="i").stable(0)
    commits = [solo.commit(p0=5), solo.commit(p0=6)]
    solo.committed(ErrorCode.FENCED_INSTANCE_ID)
    commits.append(solo.commit(p0=7))
    assert all(isinstance(commit.error, FencedInstanceIdError) for commit in commits)
    for _ in range(2):
        solo.poll()
        assert isinstance(solo.failure, FencedInstanceIdError)
    assert solo.told == [("on_lost", places(0))]
    assert solo.silent


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_9_7_12_28_29_30_and_anything_else_are_given_as_they_are(error: ErrorCode) -> None:
    solo = Solo().stable(0)
    commit = solo.commit(p0=5)
    solo.committed(error)
    assert commit.error is not None
    assert commit.error.code is error
    assert "t-0" in str(commit.error)
    assert solo.member.state is MemberState.STABLE


def test_9_7_29_is_told_when_no_other_partition_has_a_worse_error() -> None:
    solo = Solo().stable(0, 1)
    commit = solo.commit(p0=5, p1=5)
    solo.committed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert commit.error is not None
    assert commit.error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert "t-0" not in str(commit.error)


# -- manual assignment


def test_9_7_standalone_commits_name_no_generation_and_look_for_the_coordinator_when_needed() -> None:
    solo = Solo(group_instance_id="i")
    assert solo.silent
    commit = solo.commit(p0=5)
    assert solo.asked(FindCoordinatorRequest) is not None
    solo.find()
    request = asked(solo)
    assert (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id) == (-1, "", None)
    solo.committed()
    assert commit.error is None
    assert solo.member.next_deadline() is None


def test_9_7_standalone_in_a_group_that_has_members_the_error_names_the_cause() -> None:
    solo = Solo()
    commit = solo.commit(p0=5)
    solo.find()
    solo.committed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert failure(commit) is CommitFailure.STANDALONE
    assert "assign()" in str(commit.error)


def test_9_7_a_forbidden_group_fails_the_commit_and_not_a_poll_that_needs_no_group() -> None:
    solo = Solo()
    commit = solo.commit(p0=5)
    solo.find(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert commit.error is not None
    assert commit.error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    solo.poll()
    assert solo.failure is None


# -- cooperative members: a commit waits for the end of the rebalance


@pytest.mark.parametrize("until", ["join", "sync"])
def test_9_7_cooperative_held_and_sent_with_the_new_generation(until: str) -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    if until == "sync":
        solo.join(2)
    commit = solo.commit(p0=5)
    assert solo.asked(OffsetCommitRequest) is None
    if until == "join":
        solo.join(2)
    solo.sync(0, 1)
    assert asked(solo).generation_id_or_member_epoch == 2
    solo.committed()
    assert commit.error is None


def test_9_7_cooperative_what_is_to_be_revoked_can_be_committed_until_it_is() -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    commit = solo.commit(p0=5, p1=6)
    solo.join(2)
    solo.sync(1)
    solo.poll()
    assert offsets(solo) == {0: 5, 1: 6}
    assert solo.asked(JoinGroupRequest) is None
    solo.committed()
    assert commit.error is None
    assert solo.asked(JoinGroupRequest) is not None


def test_9_7_cooperative_revoked_while_it_waits_it_names_what_was_lost() -> None:
    solo = cooperative().stable(0, 1)
    first = solo.commit(p1=1)
    solo.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # makes those behind it wait
    commit = solo.commit(p0=5, p1=6)
    solo.do(solo.member.enforce_rebalance("now", solo.now))
    solo.join(2)
    solo.sync(1)
    solo.poll()
    solo.join(3)
    solo.sync(0, 1)  # back again: but others may have read on
    solo.advance(BACKOFF)
    assert offsets(solo) == {1: 1}
    solo.committed()
    assert first.error is None
    assert offsets(solo) == {1: 6}
    solo.committed()
    assert failure(commit) is CommitFailure.PARTITIONS_LOST
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.partitions == places(0)
    assert "Not committed: t-0." in str(commit.error)


def test_9_7_cooperative_revoked_and_assigned_again_in_one_generation_it_is_out_of_date() -> None:
    """An incremental group answers several joins with one generation. The member reads on from the committed offset,
    which a commit from before would move."""
    solo = cooperative().stable(0, 1)
    solo.do(solo.member.enforce_rebalance("now", solo.now))
    commit = solo.commit(p0=5, p1=6)
    solo.subscribe("u")  # gives both up as soon as the join is answered
    solo.join(1)
    solo.poll()
    assert solo.told == [("on_revoked", places(0, 1))]
    solo.subscribe("t")
    solo.join(1)  # with the old subscription: it joins once more
    solo.poll()
    solo.join(1)
    solo.sync(0, 1)
    assert solo.asked(OffsetCommitRequest) is None
    assert failure(commit) is CommitFailure.PARTITIONS_LOST
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.partitions == places(0, 1)


def test_9_7_cooperative_overtaken_by_its_own_join_it_is_made_before_others_get_what_was_revoked() -> None:
    """Commits and joins have connections of their own."""
    solo = cooperative().stable(0, 1)
    commit = solo.commit(p0=5, p1=6)
    solo.told_to_rejoin()
    solo.join(2)
    solo.sync(1)
    solo.poll()
    assert solo.told == [("on_revoked", places(0)), ("on_assigned", places())]
    solo.committed(ErrorCode.ILLEGAL_GENERATION)
    assert offsets(solo) == {0: 5, 1: 6}
    assert asked(solo).generation_id_or_member_epoch == 2
    assert solo.asked(JoinGroupRequest) is None
    solo.committed()
    assert commit.error is None
    assert solo.asked(JoinGroupRequest) is not None


def test_9_7_cooperative_refused_with_27_it_waits_too() -> None:
    solo = cooperative().stable(0)
    commit = solo.commit(p0=5)
    solo.committed(ErrorCode.REBALANCE_IN_PROGRESS)
    assert not commit.is_done
    solo.join(2)
    assert solo.asked(OffsetCommitRequest) is None
    solo.sync(0)
    assert asked(solo).generation_id_or_member_epoch == 2


def test_9_7_cooperative_put_out_while_it_waits_it_fails() -> None:
    solo = cooperative().stable(0)
    solo.told_to_rejoin()
    commit = solo.commit(p0=5)
    solo.join(error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert failure(commit) is CommitFailure.EXPELLED


def test_9_7_cooperative_with_nothing_there_is_nothing_to_wait_for() -> None:
    solo = cooperative().joining()
    assert isinstance(solo.commit(p0=5).error, RebalanceInProgressError)


@pytest.mark.parametrize("reason", [one for one in CommitFailure if one is not CommitFailure.POLL_OVERRUN])
def test_9_7_every_commit_failure_has_words_that_say_what_to_do(reason: CommitFailure) -> None:
    words = str(CommitFailedError(reason, Solo().member.config))
    assert "group g" in words
    assert len(words) > 60
