"""Commits with member epochs."""

from __future__ import annotations

from equipoise.member import CommitFailedError, CommitFailure
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode
from tests.member.consumer.lone import BACKOFF, INTERVAL, ME, Lone


def commit_request(lone: Lone) -> OffsetCommitRequest:
    found = lone.asked(OffsetCommitRequest)
    assert found is not None
    return found


def test_b11_1_a_commit_carries_the_newest_epoch_also_when_it_is_tried_again() -> None:
    lone = Lone(group_instance_id="i").stable(0)
    lone.advance(INTERVAL)
    commit = lone.commit(p0=5)
    sent = commit_request(lone)
    assert (sent.member_id, sent.generation_id_or_member_epoch, sent.group_instance_id) == (ME, 1, "i")
    lone.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lone.beat(4)
    lone.advance(BACKOFF)
    assert commit_request(lone).generation_id_or_member_epoch == 4
    lone.committed()
    assert commit.is_done
    assert commit.error is None


def test_b11_2_a_stale_epoch_goes_again_at_once_if_a_newer_one_has_come() -> None:
    lone = Lone().stable(0)
    commit = lone.commit(p0=5)
    lone.advance(INTERVAL)
    lone.beat(2)
    lone.committed(ErrorCode.STALE_MEMBER_EPOCH)
    assert commit_request(lone).generation_id_or_member_epoch == 2
    lone.committed()
    assert commit.error is None


def test_b11_2_else_a_heartbeat_leaves_at_once_and_its_answer_decides() -> None:
    lone = Lone().stable(0)
    commit = lone.commit(p0=5)
    lone.committed(ErrorCode.STALE_MEMBER_EPOCH)
    assert lone.heartbeat.member_epoch == 1
    assert not commit.is_done
    lone.beat(2)
    assert commit_request(lone).generation_id_or_member_epoch == 2
    lone.committed(ErrorCode.STALE_MEMBER_EPOCH)
    lone.beat(2)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.STALE_EPOCH
    assert commit.error.code is ErrorCode.STALE_MEMBER_EPOCH


def test_b11_2_the_answer_to_a_heartbeat_that_was_overtaken_decides_nothing() -> None:
    """Commits have a connection of their own: their refusal may come before an answer that is older."""
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    held = lone.heartbeat
    lone.subscribe("t", "u")
    commit = lone.commit(p0=5)
    lone.committed(ErrorCode.STALE_MEMBER_EPOCH)
    lone.answer(held, ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=1))
    assert not commit.is_done
    lone.beat(2)
    assert commit_request(lone).generation_id_or_member_epoch == 2
    lone.committed()
    assert commit.error is None


def test_b11_2_what_others_have_meanwhile_is_not_committed_with_a_newer_epoch() -> None:
    lone = Lone().stable(0, 1)
    lone.advance(INTERVAL)
    commit = lone.commit(p0=5, p1=6)
    lone.committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    lone.beat(1, 0)
    lone.poll()
    lone.beat(2)
    lone.advance(BACKOFF)
    assert [row.partition_index for topic in commit_request(lone).topics for row in topic.partitions] == [0]
    lone.committed()
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.PARTITIONS_LOST


def test_b11_3_an_unknown_member_has_failed_to_commit_and_its_heartbeat_finds_out() -> None:
    lone = Lone().stable(0)
    commit = lone.commit(p0=5)
    lone.committed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.REMOVED
    assert lone.asked(ConsumerGroupHeartbeatRequest) is not None


def test_b11_4_offsets_are_asked_for_with_member_id_and_epoch() -> None:
    lone = Lone()
    assert lone.member.offset_fetch_identity == (None, -1)
    lone.stable(0)
    assert lone.member.offset_fetch_identity == (ME, 1)


def test_b11_4_a_member_whose_epoch_is_refused_asks_for_it_past_a_heartbeat_that_is_held() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    held = lone.heartbeat
    lone.do(lone.member.epoch_refused(lone.now))
    assert lone.heartbeat is not held
    assert lone.heartbeat.subscribed_topic_names == ["t"]
    lone.beat(2, 0)
    assert lone.member.offset_fetch_identity == (ME, 2)
    assert lone.asked(ConsumerGroupHeartbeatRequest) is not None  # and goes on


def test_b11_5_outside_the_group_a_commit_is_a_standalone_consumers() -> None:
    lone = Lone()
    commit = lone.commit(p0=5)
    lone.find()
    sent = commit_request(lone)
    assert (sent.member_id, sent.generation_id_or_member_epoch) == ("", -1)
    lone.committed(ErrorCode.UNKNOWN_MEMBER_ID)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.STANDALONE
    assert lone.silent


def test_b11_5_a_subscribed_consumer_that_has_not_joined_cannot_commit() -> None:
    lone = Lone().joining()
    commit = lone.commit(p0=5)
    assert isinstance(commit.error, CommitFailedError)
    assert commit.error.failure is CommitFailure.NOT_JOINED
