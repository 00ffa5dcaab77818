"""From what is held to the target: callbacks, acknowledgements, names of topics."""

from __future__ import annotations

import pytest

from equipoise.assignors import Topic
from equipoise.member.consumer.states import MemberState
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.consumer.lone import BACKOFF, INTERVAL, Lone, T, U, by_id


class CallbackFailed(Exception):
    """What a listener raises."""


def fail() -> None:
    raise CallbackFailed


def test_b5_3_an_empty_assignment_is_one() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, target=[])
    assert lone.member.readable == places()
    lone.poll()
    assert lone.told == [("on_revoked", places(0, 1)), ("on_assigned", places())]
    assert lone.heartbeat.topic_partitions == []


def test_b5_3_the_first_assignment_is_told_even_if_it_is_empty() -> None:
    lone = Lone().joining()
    lone.beat(1, target=[])
    lone.poll()
    assert lone.told == [("on_assigned", places())]
    assert lone.heartbeat.topic_partitions == []


def test_b5_4_a_newer_target_waits_for_the_end_of_the_reconciliation_under_way() -> None:
    lone = Lone().stable(0, 1, 2)
    lone.told_by_heartbeat(1, 0, 1)

    def newer() -> None:
        lone.advance(INTERVAL)
        lone.beat(1, 0)

    lone.during("on_revoked", newer)
    lone.do(lone.member.poll_begins(lone.now))
    for _ in range(2):
        callback = lone.member.begin_callback()
        assert callback is not None
        lone.run_listener(callback)
    assert lone.told == [("on_revoked", places(2)), ("on_assigned", places())]
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))  # the first is acknowledged
    assert lone.state is MemberState.RECONCILING
    lone.listener = lambda callback: None
    lone.poll()
    assert lone.told[2:] == []
    lone.beat(1)
    lone.poll()
    assert lone.told[2:] == [("on_revoked", places(1)), ("on_assigned", places())]
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


def test_b5_5_what_comes_behind_an_acknowledgement_is_taken_when_that_is_answered() -> None:
    """The coordinator may have taken it back by then: the acknowledgement does not list it."""
    lone = Lone().joining()
    lone.beat(1, 0)

    def newer() -> None:
        lone.advance(INTERVAL)
        lone.beat(1, 0, 1)

    lone.during("on_assigned", newer)
    lone.poll()
    lone.listener = lambda callback: None
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))
    lone.poll()
    assert lone.told == [("on_assigned", places(0))]
    lone.beat(2, 0)  # it has
    lone.poll()
    assert lone.told == [("on_assigned", places(0))]
    assert lone.member.assignment == places(0)


def test_b4_2_a_full_heartbeat_lists_what_is_being_taken_too() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(2, 0, 1)
    lone.advance(INTERVAL)
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 1))
    assert lone.member.readable == places(0)


def test_b5_4_a_newer_target_replaces_one_that_the_application_has_not_heard_of() -> None:
    lone = Lone().stable(0, 1, 2)
    lone.told_by_heartbeat(1, 0, 1)
    lone.told_by_heartbeat(1, 0, 1, 3)
    lone.told_by_heartbeat(1, 0, 2)
    lone.poll()
    assert lone.told == [("on_revoked", places(1)), ("on_assigned", places())]
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 2))


def test_b6_4_the_listener_hears_what_moves_and_in_this_order() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(2, 1, 2)
    lone.poll()
    assert lone.told == [("on_revoked", places(0)), ("on_assigned", places(2))]
    assert lone.member.readable == places(1, 2)


def test_b6_5_callbacks_run_inside_poll_and_what_is_revoked_is_not_read_before() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.advance(3 * INTERVAL)
    assert lone.told == []
    assert lone.member.readable == places(0)
    assert lone.member.assignment == places(0, 1)


def test_b6_8_added_partitions_are_not_read_before_on_assigned_has_run() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(2, 0, 1)
    assert lone.member.readable == places(0)
    seen = list[object]()
    lone.during("on_assigned", lambda: seen.append(lone.member.readable))
    lone.poll()
    assert seen == [places(0)]
    assert lone.member.readable == places(0, 1)


def test_b6_7_offsets_are_committed_in_on_revoked_and_go_again_with_the_epoch_that_came_meanwhile() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.during("on_revoked", lambda: refused_once(lone))
    lone.poll()
    assert lone.told == [("on_revoked", places(1)), ("on_assigned", places())]


def refused_once(lone: Lone) -> None:
    commit = lone.commit(p1=7)
    lone.committed(ErrorCode.STALE_MEMBER_EPOCH)
    assert not commit.is_done
    lone.beat(2)
    again = lone.asked(OffsetCommitRequest)
    assert again is not None
    assert again.generation_id_or_member_epoch == 2
    lone.committed()
    assert commit.is_done
    assert commit.error is None


def test_b6_9_fenced_while_on_revoked_runs_only_the_rest_is_lost() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)

    def fenced() -> None:
        lone.advance(INTERVAL)
        lone.beat(error=ErrorCode.FENCED_MEMBER_EPOCH)

    lone.during("on_revoked", fenced)
    lone.poll()
    assert lone.told == [("on_revoked", places(1)), ("on_lost", places(0))]
    assert lone.heartbeat.member_epoch == 0
    assert lone.heartbeat.topic_partitions == []


@pytest.mark.parametrize("kind", ["on_revoked", "on_assigned"])
def test_b6_10_a_callback_that_fails_is_not_acknowledged_and_the_next_poll_tries_again(kind: str) -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0, 2)
    lone.during(kind, fail)
    with pytest.raises(CallbackFailed):
        lone.poll()
    lone.advance(INTERVAL)
    assert lone.heartbeat.topic_partitions is None
    assert lone.state is MemberState.RECONCILING
    assert lone.member.readable == places(0)
    lone.listener = lambda callback: None
    lone.told.clear()
    lone.poll()
    retried = [("on_revoked", places(1)), ("on_assigned", places(2))]
    assert lone.told == (retried if kind == "on_revoked" else retried[1:])
    lone.beat(1)
    assert lone.heartbeat.topic_partitions == by_id(T=(0, 2))
    assert lone.member.readable == places(0, 2)


def test_b6_10_a_member_whose_callback_fails_again_and_again_is_fenced_and_goes_on() -> None:
    lone = Lone().stable(0, 1)
    lone.told_by_heartbeat(1, 0)
    lone.during("on_revoked", fail)
    for _ in range(3):
        with pytest.raises(CallbackFailed):
            lone.poll()
    lone.told.clear()
    lone.told_by_heartbeat(error=ErrorCode.UNKNOWN_MEMBER_ID, epoch=0)
    lone.poll()
    assert lone.told == [("on_lost", places(0, 1))]
    lone.beat(4, 0)
    lone.poll()
    assert lone.member.readable == places(0)


def test_b6_2_an_unknown_topic_is_asked_for_by_id_and_the_rest_is_assigned_meanwhile() -> None:
    lone = Lone()
    lone.learn(covered=frozenset({"t"}), t=3)
    lone.subscribe("t")
    lone.poll()
    lone.find()
    assert lone.member.subscription.wanted_ids == frozenset()
    lone.beat(1, target=by_id(T=(0,), U=(1,)))
    assert lone.member.subscription.wanted_ids == {U}
    lone.poll()
    assert lone.told == [("on_assigned", places(0))]
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))
    lone.beat(1)
    assert lone.state is MemberState.RECONCILING
    lone.advance(3 * INTERVAL)
    lone.beat(1)
    assert [one.topic_partitions for one in beats(lone)][2:] == [None, None]  # acknowledged once
    lone.learn(t=3, u=2)
    assert lone.member.subscription.wanted_ids == frozenset()
    lone.poll()
    assert lone.told[1:] == [("on_assigned", places(1, topic="u"))]
    lone.beat(1)
    assert lone.heartbeat.topic_partitions == by_id(T=(0,), U=(1,))
    assert lone.state is MemberState.STABLE


def beats(lone: Lone) -> list[ConsumerGroupHeartbeatRequest]:
    return [one for one in lone.sent if isinstance(one, ConsumerGroupHeartbeatRequest)]


def test_b6_2_a_topic_that_is_held_keeps_its_name_when_the_metadata_forget_it() -> None:
    lone = Lone().stable(0, 1)
    lone.learn(covered=frozenset({"t"}))
    lone.told_by_heartbeat(1, 0)
    lone.poll()
    assert lone.told == [("on_revoked", places(1)), ("on_assigned", places())]
    assert lone.member.subscription.wanted_ids == {T}


def test_b6_2_a_topic_made_anew_is_revoked_and_assigned_again() -> None:
    lone = Lone().stable(0)
    lone.do(lone.member.learn({}, frozenset({"t"}), lone.now))
    lone.told_by_heartbeat(2, target=by_id(N=(0,)))
    lone.poll()
    lone.beat(2)
    lone.do(lone.member.learn({"t": Topic(1, topic_id=b"N" * 16)}, frozenset({"t"}), lone.now))
    lone.poll()
    assert lone.told == [("on_revoked", places(0)), ("on_assigned", places()), ("on_assigned", places(0))]
    assert lone.heartbeat.topic_partitions == by_id(N=(0,))


def test_b6_3_a_resolvable_part_that_is_held_is_acknowledged_once_without_callbacks() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(2, target=by_id(T=(0,), X=(0,)))
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))
    lone.beat(2)
    lone.advance(INTERVAL)
    assert lone.heartbeat.topic_partitions is None
    assert lone.told == []


def test_b6_11_repeated_and_negative_partitions_mean_nothing() -> None:
    lone = Lone().joining()
    lone.beat(1, 0, 0, -1)
    lone.poll()
    assert lone.member.assignment == places(0)
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))


def test_b12_2_any_topic_of_the_assignment_is_taken_and_b12_3_asked_for_by_id() -> None:
    lone = Lone()
    lone.subscribe(regex="u|t.*")
    lone.poll()
    lone.find()
    assert lone.member.subscription.wanted == frozenset()
    lone.beat(1, target=[])
    lone.poll()
    lone.beat(2, target=by_id(U=(0, 1)))
    assert lone.member.subscription.wanted_ids == {U}
    lone.learn(covered=frozenset(), u=2)
    lone.beat(2)
    lone.poll()
    assert lone.member.readable == places(0, 1, topic="u")
    assert lone.member.subscription.wanted_ids == {U}  # leaders move: it is asked for again
    assert lone.heartbeat.topic_partitions == by_id(U=(0, 1))


def test_b4_3_topics_without_a_name_are_not_said_to_be_held_after_a_failure() -> None:
    lone = Lone().stable(0)
    lone.told_by_heartbeat(2, target=by_id(T=(0,), X=(0,)))
    lone.fail(lone.heartbeat)
    lone.advance(BACKOFF)
    lone.find()
    assert lone.heartbeat.topic_partitions == by_id(T=(0,))
