"""When a heartbeat leaves, and what it says."""

from __future__ import annotations

import pytest

from equipoise.member.consumer.states import MemberState
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.consumer.lone import BACKOFF, INTERVAL, MAX_POLL, ME, Lone, by_id


def test_b3_1_nothing_is_sent_before_the_first_poll() -> None:
    lone = Lone().subscribe("t")
    lone.advance(10 * INTERVAL)
    assert lone.silent
    assert lone.state is MemberState.UNSUBSCRIBED


def test_b3_1_there_are_no_heartbeats_outside_the_group() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    lone.beat(error=ErrorCode.UNKNOWN_MEMBER_ID)
    lone.advance(10 * INTERVAL)
    assert lone.silent
    assert lone.state is MemberState.FENCED


def test_b4_4_the_first_heartbeat_says_all_and_the_second_nothing_but_ids_and_epoch() -> None:
    lone = Lone(client_rack="r", server_assignor="range", group_instance_id="i").joining("u", "t")
    first = lone.heartbeat
    assert (first.group_id, first.member_id, first.member_epoch, first.instance_id) == ("g", ME, 0, "i")
    assert (first.rack_id, first.rebalance_timeout_ms, first.server_assignor) == ("r", MAX_POLL, "range")
    assert first.subscribed_topic_names == ["t", "u"]
    assert first.subscribed_topic_regex == ""
    assert first.topic_partitions == []
    lone.beat(1, 0, 1)
    lone.poll()
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))
    lone.beat(1)
    lone.advance(INTERVAL)
    assert lone.heartbeat == ConsumerGroupHeartbeatRequest(group_id="g", member_id=ME, member_epoch=1, instance_id="i")


def test_b3_3_one_at_each_interval_counted_from_its_departure_and_one_at_a_time() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL - 1)
    assert lone.silent
    lone.advance(1)
    assert lone.heartbeat.member_epoch == 1
    count = len(lone.sent)
    lone.advance(3 * INTERVAL)
    assert len(lone.sent) == count
    lone.beat(1)
    assert len(lone.sent) == count + 1


def test_b3_4_an_acknowledgement_leaves_at_once() -> None:
    lone = Lone().joining()
    lone.beat(1, 0)
    assert lone.silent
    lone.poll()
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


def test_b3_5_the_departure_of_the_acknowledgement_ends_its_state() -> None:
    lone = Lone().joining()
    lone.beat(1, 0)
    assert lone.state is MemberState.RECONCILING
    lone.poll()
    assert lone.state is MemberState.STABLE
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


@pytest.mark.parametrize("interval", [0, -1])
def test_b3_6_an_interval_that_is_not_positive_is_ignored(interval: int) -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(1, interval=interval)
    lone.advance(INTERVAL - 1)
    assert lone.silent
    lone.advance(1)
    assert not lone.silent


def test_b3_6_another_interval_counts_at_once() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    lone.advance(100)
    lone.beat(1, interval=300)
    lone.advance(299)
    assert lone.silent
    lone.advance(1)
    assert not lone.silent


def test_b3_7_after_a_disconnect_the_next_heartbeat_says_all_at_the_same_epoch() -> None:
    lone = Lone().stable(0, 2)
    lone.advance(INTERVAL)
    lone.fail(lone.heartbeat)
    assert lone.silent
    lone.advance(BACKOFF)
    lone.find()
    again = lone.heartbeat
    assert again.member_epoch == 1
    assert again.rebalance_timeout_ms == MAX_POLL
    assert again.subscribed_topic_names == ["t"]
    assert again.subscribed_topic_regex == ""
    assert again.topic_partitions == by_id(T=(0, 2))
    assert again.rack_id is None


def test_b3_7_pauses_double_and_begin_anew_after_a_success() -> None:
    lone = Lone().subscribe("t")
    lone.poll()
    for pause in (100, 200, 400, 800, 1000, 1000):
        found = lone.asked(FindCoordinatorRequest)
        assert found is not None
        lone.fail(found)
        lone.advance(pause - 1)
        assert lone.silent
        lone.advance(1)
    lone.find()
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    assert lone.asked(FindCoordinatorRequest) is not None


def test_b4_1_a_target_that_comes_back_is_acknowledged_again_and_an_unchanged_one_is_not() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.told_by_heartbeat(1, 0, 1)
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))
    assert lone.told == []
    lone.beat(1)
    lone.told_by_heartbeat(1, 0, 1)
    assert lone.silent
    assert lone.state is MemberState.STABLE


def test_b4_2_while_partitions_are_given_up_heartbeats_say_nothing_of_them() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.advance(INTERVAL)
    assert lone.heartbeat.topic_partitions is None
    assert lone.member.readable == places(0)
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))  # a full one has what is being given up


def test_b4_2_offsets_committed_in_on_revoked_are_through_before_the_acknowledgement() -> None:
    commits = list[object]()
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.during("on_revoked", lambda: commits.append(lone.commit(p1=7)))
    lone.poll()
    assert lone.asked(ConsumerGroupHeartbeatRequest) is None
    lone.committed()
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


def test_b4_2_after_a_failure_a_list_is_sent_while_commits_go_first_and_gives_nothing_up() -> None:
    lone = Lone().stable(0, 1)
    lone.advance(INTERVAL)
    commits = list[object]()
    lone.beat(1, 0)
    lone.during("on_revoked", lambda: commits.append(lone.commit(p1=7)))
    lone.poll()
    lone.advance(INTERVAL)
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))
    assert lone.state is MemberState.ACKNOWLEDGING
    lone.committed()
    lone.beat(1)
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


def test_b4_5_topics_are_a_set_and_a_new_subscription_leaves_at_once() -> None:
    lone = Lone().stable(0)
    lone.subscribe("t")
    assert lone.silent
    lone.subscribe("u", "t")
    assert lone.heartbeat.subscribed_topic_names == ["t", "u"]
    lone.beat(1)
    lone.subscribe("t", "u")
    assert lone.silent


def test_b4_5_a_pattern_that_is_gone_is_said_to_be_gone_in_every_full_request() -> None:
    lone = Lone()
    lone.subscribe(regex="t.*")
    lone.poll()
    lone.find()
    assert lone.heartbeat.subscribed_topic_regex == "t.*"
    assert lone.heartbeat.subscribed_topic_names == []
    lone.beat(1, target=[])
    lone.poll()
    lone.beat(1)
    lone.beat(1)
    lone.subscribe("t")
    assert lone.heartbeat.subscribed_topic_regex == ""
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.subscribed_topic_regex == ""


def test_b12_4_a_pattern_of_the_consumer_is_matched_first_and_joins_even_if_nothing_matches() -> None:
    lone = Lone()
    lone.subscribe(pattern="x.*")
    lone.poll()
    assert lone.silent
    lone.learn(t=3)
    lone.find()
    assert lone.heartbeat.subscribed_topic_names == []
    lone.beat(1, target=[])
    lone.poll()
    lone.beat(1)
    lone.beat(1)
    lone.learn(t=3, x1=2)
    assert lone.heartbeat.subscribed_topic_names == ["x1"]


def test_b2_1_the_member_id_is_one_for_the_life_of_the_consumer() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID, epoch=0)
    lone.poll()
    lone.beat(3, 0)
    lone.unsubscribe()
    lone.poll()
    lone.subscribe("t")
    lone.poll()
    asked = [one for one in lone.sent if isinstance(one, ConsumerGroupHeartbeatRequest)]
    assert {one.member_id for one in asked} == {ME}


def test_b3_9_behind_the_answer_to_an_acknowledgement_one_leaves_that_can_be_held() -> None:
    lone = Lone().joining()
    lone.beat(1, 0)
    lone.poll()
    assert lone.heartbeat.topic_partitions is not None
    lone.beat(1)
    assert lone.heartbeat.topic_partitions is None
    lone.beat(1)
    assert lone.silent


def test_b3_10_a_new_subscription_overtakes_the_heartbeat_in_flight_and_says_all() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    held = lone.heartbeat
    lone.subscribe("t", "u")
    full = lone.heartbeat
    assert full is not held
    assert (full.subscribed_topic_names, full.topic_partitions) == (["t", "u"], by_id(T=(0,)))
    assert full.rebalance_timeout_ms == MAX_POLL
    lone.answer(held, ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=2))
    assert lone.member.member_epoch == 2  # its answer counts, but is not waited for
    lone.fail(full)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.member_epoch == 2


def test_b3_10_an_epoch_that_the_overtaken_one_has_made_old_does_not_fence() -> None:
    lone = Lone().stable(0)
    lone.advance(INTERVAL)
    held = lone.heartbeat
    lone.subscribe("t", "u")
    full = lone.heartbeat
    lone.answer(held, ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=3))
    lone.answer(full, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    again = lone.heartbeat
    assert (again.member_epoch, again.subscribed_topic_names, again.topic_partitions) == (3, ["t", "u"], by_id(T=(0,)))
    lone.answer(again, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    lone.poll()
    assert lone.heartbeat.member_epoch == 0


def test_b3_10_a_join_is_not_overtaken() -> None:
    lone = Lone().joining()
    lone.subscribe("u")
    assert len([one for one in lone.sent if isinstance(one, ConsumerGroupHeartbeatRequest)]) == 1
    lone.beat(1, 0)
    assert lone.heartbeat.subscribed_topic_names == ["u"]
