"""Rules 9.3 and 9.4: what a member gives up before it joins, and what it is told when it has its assignment.

Meant otherwise than in Java: listeners hear deltas, so nothing is revoked where there is nothing.
"""

from __future__ import annotations

import pytest

from equipoise.member import CommitFailedError, MemberState
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.consumer_protocol import StickyUserData, decode_sticky_user_data, decode_subscription
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.solo import HEARTBEAT, MAX_POLL, Solo, cooperative

# -- 9.3 onJoinPrepare


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_9_3_out_of_its_generation_everything_is_lost(assignor: str, error: ErrorCode) -> None:
    solo = Solo(assignor).stable(0, 1)
    solo.advance(HEARTBEAT)
    solo.beat(error)
    assert solo.member.readable == frozenset()
    solo.poll()
    assert solo.told == [("on_lost", places(0, 1))]
    assert solo.member.assignment == frozenset()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert decode_subscription(request.protocols[0].metadata).owned_partitions == {}


def test_9_3_the_loss_is_told_even_if_there_is_no_coordinator_to_join_at() -> None:
    solo = Solo(max_poll_interval_ms=10_000).stable(0)
    solo.advance(HEARTBEAT)
    solo.beat(ErrorCode.NOT_COORDINATOR)
    solo.advance(MAX_POLL)
    solo.poll()
    assert solo.told == [("on_lost", places(0))]


def test_9_3_eager_all_is_revoked_before_join_group() -> None:
    solo = Solo().stable(0, 1)
    solo.told_to_rejoin()
    assert solo.member.readable == frozenset()
    solo.poll()
    assert solo.told == [("on_revoked", places(0, 1))]
    assert solo.member.assignment == frozenset()
    assert solo.asked(JoinGroupRequest) is not None


def test_9_3_eager_with_nothing_is_told_nothing() -> None:
    solo = Solo().stable()
    solo.told_to_rejoin()
    solo.poll()
    assert solo.told == []
    assert solo.asked(JoinGroupRequest) is not None


def test_9_3_cooperative_only_topics_no_longer_subscribed_are_revoked() -> None:
    solo = cooperative().stable(0, 1, topics=("t", "u"))
    solo.subscribe("u")
    solo.poll()
    assert solo.told == [("on_revoked", places(0, 1))]
    assert solo.asked(JoinGroupRequest) is not None


def test_9_3_cooperative_the_rest_is_kept_read_and_claimed() -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    solo.poll()
    assert (solo.told, solo.member.readable) == ([], places(0, 1))
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    subscription = decode_subscription(request.protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ({"t": [0, 1]}, 1)


def test_9_3_offsets_can_be_committed_in_on_revoked_and_are_through_before_the_join() -> None:
    solo = Solo().stable(0)
    solo.told_to_rejoin()
    commits = []
    solo.listener = lambda callback: commits.append(solo.commit(p0=5))
    solo.poll()
    assert solo.asked(JoinGroupRequest) is None
    solo.committed()
    assert commits[0].is_done
    assert commits[0].error is None
    assert solo.asked(JoinGroupRequest) is not None


def test_9_3_a_commit_in_on_revoked_that_has_to_be_tried_again_does_not_stop_the_join() -> None:
    solo = Solo().stable(0)
    solo.told_to_rejoin()
    commits = []
    solo.listener = lambda callback: commits.append(solo.commit(p0=5))
    solo.poll()
    solo.committed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert solo.asked(JoinGroupRequest) is not None
    solo.join(2)
    solo.sync(0)
    solo.advance(1_000)
    assert solo.asked(OffsetCommitRequest) is None
    assert isinstance(commits[0].error, CommitFailedError)
    assert commits[0].error.partitions == places(0)


def test_9_3_a_join_that_is_repeated_does_not_repeat_the_callback() -> None:
    solo = Solo().stable(0)
    solo.told_to_rejoin()
    solo.poll()
    solo.join(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    solo.advance(1_000)
    solo.poll()
    assert solo.told == [("on_revoked", places(0))]
    assert solo.asked(JoinGroupRequest) is not None


# -- 9.4 onJoinComplete


@pytest.mark.parametrize("raw", [b"", b"\x00"])
def test_9_4_less_than_two_bytes_are_no_assignment(raw: bytes) -> None:
    solo = Solo().completing()
    solo.sync(assignment=raw)
    solo.poll()
    assert solo.failure is not None
    assert "its version alone takes 2" in str(solo.failure)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_9_4_topics_that_are_not_subscribed_to_make_it_join_again_untold(assignor: str) -> None:
    solo = Solo(assignor).completing()
    solo.sync(0, topic="other")
    assert solo.asked(JoinGroupRequest) is not None
    solo.poll()
    assert solo.told == []


def test_9_4_topics_that_match_the_pattern_are_taken_even_if_they_were_not_known() -> None:
    solo = Solo().subscribe(pattern="t.*")
    solo.learn(t=1)
    solo.poll()
    solo.find()
    solo.join()
    solo.sync(0, topic="tt")
    solo.poll()
    assert solo.told == [("on_assigned", places(0, topic="tt"))]


def test_9_4_a_topic_that_matched_the_pattern_before_it_was_known_is_no_news_when_it_is() -> None:
    solo = cooperative().subscribe(pattern="t.*")
    solo.learn(t=1)
    solo.poll()
    solo.find()
    solo.join()
    solo.sync(0, topic="tt")
    solo.poll()
    solo.learn(t=1, tt=1)
    solo.poll()
    assert solo.asked(JoinGroupRequest) is None
    solo.learn(t=1)
    solo.poll()
    assert solo.told[-1] == ("on_revoked", places(0, topic="tt"))
    assert solo.asked(JoinGroupRequest) is not None


def test_9_4_a_topic_that_went_while_it_joined_is_not_subscribed_to_again() -> None:
    solo = cooperative().subscribe(pattern="t.*")
    solo.learn(t=1, tt=1)
    solo.poll()
    solo.find()
    solo.join()
    solo.learn(t=1)
    solo.sync(0, topic="tt")
    solo.poll()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert decode_subscription(request.protocols[0].metadata).topics == ["t"]


def test_9_4_cooperative_revoked_then_assigned_then_it_joins_again() -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    solo.join(2)
    solo.sync(1, 2)
    assert solo.member.readable == places(1)
    assert solo.asked(JoinGroupRequest) is None
    solo.poll()
    assert solo.told == [("on_revoked", places(0)), ("on_assigned", places(2))]
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    subscription = decode_subscription(request.protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ({"t": [1, 2]}, 2)


def test_9_4_cooperative_without_revocation_it_does_not_join_again() -> None:
    solo = cooperative().stable(0)
    solo.told_to_rejoin()
    solo.join(2)
    solo.sync(0, 1)
    solo.poll()
    assert solo.told == [("on_assigned", places(1))]
    assert solo.asked(JoinGroupRequest) is None
    assert solo.member.state is MemberState.STABLE


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_9_4_on_assigned_is_called_even_if_nothing_was_added(assignor: str) -> None:
    solo = Solo(assignor).completing()
    solo.sync()
    solo.poll()
    assert solo.told == [("on_assigned", frozenset())]


def test_9_4_eager_all_that_is_assigned_is_added() -> None:
    solo = Solo().stable(0, 1)
    solo.told_to_rejoin()
    solo.poll()
    solo.join(2)
    solo.sync(1, 2)
    solo.poll()
    assert solo.told == [("on_revoked", places(0, 1)), ("on_assigned", places(1, 2))]


@pytest.mark.parametrize(
    ("assignors", "is_cooperative"),
    [
        (("range", "cooperative-sticky"), False),
        (("cooperative-sticky", "range"), False),
        (("cooperative-sticky",), True),
        (("range", "roundrobin", "sticky"), False),
    ],
)
def test_9_4_a_member_is_as_cooperative_as_all_its_assignors(assignors: tuple[str, ...], is_cooperative: bool) -> None:
    assert Solo(*assignors).member.is_cooperative is is_cooperative


def test_9_4_expelled_between_assignment_and_poll_the_application_has_never_had_it() -> None:
    solo = Solo().completing()
    solo.sync(0)
    solo.beat(ErrorCode.UNKNOWN_MEMBER_ID)
    solo.poll()
    assert (solo.told, solo.member.assignment) == ([], frozenset())


def test_9_4_expelled_while_on_revoked_runs_only_the_rest_is_lost() -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    solo.join(2)
    solo.sync(1)
    solo.during("on_revoked", lambda: solo.beat(ErrorCode.UNKNOWN_MEMBER_ID))
    solo.poll()
    assert solo.told == [("on_revoked", places(0)), ("on_lost", places(1))]


def test_9_4_the_assignor_of_the_generation_hears_what_was_assigned() -> None:
    solo = Solo("sticky").completing()
    solo.sync(0, 2)
    user_data = solo.member.config.assignors[0].user_data(["t"])
    assert user_data is not None
    assert decode_sticky_user_data(user_data) == StickyUserData(owned_partitions={"t": [0, 2]}, generation_id=1)
