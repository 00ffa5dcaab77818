"""Rules A7, A8, A9, A11 and A12.2: members walk to their targets one by one."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.assignment import epochs
from equipoise.coordinator.consumer.assignment.reconcile import Situation, reconcile, waits_for
from equipoise.coordinator.consumer.records.build import current_record
from equipoise.coordinator.consumer.states import GROUP_STATES, MEMBER_STEPS, GroupState, MemberEvent, MemberState
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure, Who
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.errors import ErrorCode
from tests.consumer_groups.stage import SESSION, Member, Stage, settle, topic_id


def two() -> tuple[Stage, Member, Member]:
    """a has given nothing up yet, b waits for it."""
    stage = Stage(t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    a.ack()
    b.join("t")
    return stage, a, b


def test_the_trace_of_two_members() -> None:
    """Rules A7, A8.2 to A8.4, A8.8 and A9.2, with the states between the steps."""
    stage, a, b = two()
    assert (b.epoch, b.partitions, b.known.state, stage.state) == (
        *(3, set(), MemberState.UNRELEASED_PARTITIONS),
        "Reconciling",
    )
    assert a.beat().member_epoch == 2
    assert (len(a.partitions), a.known.state, len(a.known.revoking)) == (3, MemberState.UNREVOKED_PARTITIONS, 3)
    written = len(stage.log)
    assert (a.beat().assignment, a.epoch, len(stage.log)) == (None, 2, written)
    everything = a.rows((stage.id_of("t"), number) for number in range(6))
    assert (a.send(topic_partitions=everything).assignment, a.epoch, len(stage.log)) == (None, 2, written)
    assert b.beat().assignment is None
    assert waits_for(b.known, stage.group.target_of("b"), stage.group.owners) == {"a": 3}
    done = a.ack()
    assert (done.member_epoch, done.assignment, a.known.state) == (3, None, MemberState.STABLE)
    assert (b.beat().member_epoch, a.partitions | b.partitions) == (3, set(range(6)))
    assert (b.known.state, stage.state, a.partitions & b.partitions) == (MemberState.STABLE, "Stable", set())


def test_a_lost_answer_to_an_ack_is_repaired() -> None:
    """Rule A3.18 and rule A8.10: the epoch before, with a subset of what it has."""
    stage, a, b = two()
    a.beat()
    done = a.ack()
    written = len(stage.log)
    again = a.send(2, topic_partitions=a.rows(a.owned))
    assert (again.member_epoch, len(stage.log)) == (done.member_epoch, written)
    for fields in ({"topic_partitions": None}, {"topic_partitions": a.rows(b.wanted | {(stage.id_of("t"), 9)})}):
        assert a.send(2, **fields).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    older, larger = a.send(1, topic_partitions=[]), a.send(9)
    assert older.error_message == (
        "The consumer group member has a smaller member epoch (1) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )
    assert larger.error_message.startswith("The consumer group member has a greater member epoch (9) than the one")
    assert {older.error_code, larger.error_code} == {ErrorCode.FENCED_MEMBER_EPOCH}


def test_a_member_that_begins_anew_has_given_up_all() -> None:
    """Rule A3.18: epoch 0 always passes; in each state it gets what it may have."""
    stage, a, b = two()
    a.beat()
    assert (a.join("t").member_epoch, len(a.partitions), a.known.state) == (3, 3, MemberState.STABLE)
    assert (b.join("t").member_epoch, len(b.partitions), b.known.state) == (3, 3, MemberState.STABLE)
    assert (a.join("t").member_epoch, stage.epochs) == (3, (3, 3))


def test_a_member_with_something_to_give_up_is_frozen() -> None:
    """Rule A8.7: newer targets reach it when it has given up what it was asked for, at the same epoch."""
    stage, a, b = two()
    a.beat()
    revoking = set(a.known.revoking)
    c = stage.member("c")
    c.join("t")
    assert (a.beat().assignment, set(a.known.revoking), stage.epochs) == (None, revoking, (4, 4))
    a.ack()
    assert (a.epoch, a.known.state, len(a.partitions)) == (2, MemberState.UNREVOKED_PARTITIONS, 2)
    a.ack()
    assert (a.epoch, a.known.state) == (4, MemberState.STABLE)
    settle(stage, a, b, c)
    assert [len(one.partitions) for one in (a, b, c)] == [2, 2, 2]


def test_a_partition_that_comes_back_is_not_somebody_elses() -> None:
    """Rule A8.1 (KAFKA-19449): asked for, and in the target again before the member has given it up."""
    _stage, a, b = two()
    a.beat()
    b.leave()
    a.ack()
    assert (a.epoch, a.known.state, a.partitions) == (4, MemberState.STABLE, set(range(6)))


def test_a_chain_of_hand_overs_converges() -> None:
    """Rule A8: in every order of heartbeats."""
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)):
        stage = Stage(t=5, u=4)
        members = [stage.member(name) for name in "abc"]
        members[0].join("t", "u")
        members[1].join("u")
        members[2].join("t")
        settle(stage, *(members[place] for place in order))
        held = [partition for member in members for partition in member.wanted]
        assert len(held) == len(set(held)) == 9


def test_topics_that_are_dropped_go_at_once() -> None:
    """Rule A8.6 (KAFKA-19431): before any new target."""
    stage = Stage({"group_consumer_assignment_interval_ms": 60_000}, t=2, u=2)
    member = stage.member("a")
    member.join("t", "u")
    member.ack()
    answer = member.send(subscribed_topic_names=["t"])
    assert (answer.member_epoch, {found for found, _ in member.wanted}) == (2, {stage.id_of("t")})
    assert (member.known.state, len(member.known.revoking), stage.state) == (
        *(MemberState.UNREVOKED_PARTITIONS, 2),
        "Assigning",
    )
    answer = member.send(subscribed_topic_names=[])
    assert (answer.member_epoch, member.wanted, len(member.known.revoking)) == (2, set(), 4)


def test_dropped_topics_that_are_given_up_already_shrink_the_assignment() -> None:
    """Rule A8.6: state and epoch stay."""
    stage = Stage({"group_consumer_assignment_interval_ms": 60_000}, t=2, u=2)
    member = stage.member("a")
    member.join("t", "u")
    member.ack()
    kept = [(stage.id_of("t"), number) for number in range(2)]
    member.send(subscribed_topic_names=["t"], topic_partitions=member.rows(kept))
    assert (member.known.state, set(member.known.assigned), member.known.member_epoch) == (
        *(MemberState.STABLE, set(kept)),
        2,
    )


def test_an_unknown_state_must_begin_anew() -> None:
    """Rule A3.20."""
    stage = Stage(t=1)
    member = stage.member("a")
    member.join("t")
    unknown = member.known._replace(state=MemberState.UNKNOWN)
    changes = stage.shard.changes("g")
    stage.log.append(current_record("g", unknown))
    changes.put(current_record("g", unknown))
    assert member.known.state is MemberState.UNKNOWN
    for owned in (None, member.rows([(stage.id_of("t"), 0)])):
        assert member.send(topic_partitions=owned).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.send(topic_partitions=[]).error_code == ErrorCode.NONE
    assert member.known.state is MemberState.STABLE


def test_every_state_and_event_has_a_step() -> None:
    """Rule A23.5: the table covers what `reconcile` can find, and describes every state of a group but Dead."""
    assert {state for state, _ in MEMBER_STEPS} == set(MemberState)
    assert {event for _, event in MEMBER_STEPS} == set(MemberEvent)
    assert set(GROUP_STATES) == set(GroupState) - {GroupState.DEAD}
    tp = (topic_id("t"), 0)
    stage = Stage(t=1)
    member = stage.member("a")
    member.join("t")
    for state in (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS):
        for owned in (None, frozenset(), frozenset({tp})):
            for changed in (False, True):
                situation = Situation(3, frozenset({tp}), owned, {}, {tp[0]}, changed)
                assert reconcile(member.known._replace(state=state), situation).member_id == "a"


# -- leaving and timers


def test_a_leave_bumps_and_the_others_get_the_rest_with_the_next_target() -> None:
    """Rules A2.4, A6.1, A7 and A11: the removal itself never assigns."""
    stage, a, b = two()
    settle(stage, a, b)
    written = len(stage.log)
    answer = b.leave()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (
        "b",
        -1,
        0,
        None,
    )
    assert (stage.types(written), stage.state) == (["8t", "7t", "5t", "3"], "Assigning")
    a.beat()
    assert (a.partitions, stage.state) == (set(range(6)), "Stable")


def test_the_last_member_leaves_an_empty_group_with_its_target() -> None:
    """Rule A6.5."""
    stage = Stage(t=1)
    member = stage.member("a")
    member.join("t")
    written = len(stage.log)
    member.leave()
    assert (stage.types(written), stage.state, stage.epochs) == (["8t", "7t", "5t", "3", "6"], "Empty", (3, 3))
    assert stage.group.target_timestamp == 0


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    """Rules A11 and A11.1: its rebalance timeout, armed with the answer that asked."""
    stage, a, b = two()
    a.beat()
    stage.advance(4_999)
    assert "a" in stage.group.members
    stage.advance(1)
    assert "a" not in stage.group.members
    left = [event for event in stage.events if isinstance(event, MemberLeft)]
    assert [(one.who.member_id, one.departure, one.limit_ms) for one in left] == [
        ("a", Departure.REVOCATION_EXPIRED, 5_000)
    ]
    assert a.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert b.beat().member_epoch == 4
    assert b.partitions == set(range(6))


def test_the_rebalance_timer_counts_for_the_epoch_it_was_armed_at() -> None:
    """Rule A11: after the ack it has no effect. A11.2: no timer runs for who waits."""
    stage, a, _b = two()
    a.beat()
    a.ack()
    stage.advance(10_000)
    assert set(stage.group.members) == {"a", "b"}


def test_the_rebalance_timeout_is_that_of_the_same_request() -> None:
    """Rule A11: armed from the member as it is now."""
    stage, a, _b = two()
    a.send(rebalance_timeout_ms=20_000)
    stage.advance(19_999)
    assert "a" in stage.group.members
    stage.advance(1)
    assert "a" not in stage.group.members


def test_silence_ends_a_session_and_commits_are_no_sign_of_life() -> None:
    """Rules A5.10 and A17.6."""
    stage = Stage(t=2)
    a = stage.member("a")
    a.join("t")
    stage.advance(SESSION - 1)
    assert a.beat().error_code == ErrorCode.NONE
    stage.advance(SESSION - 1)
    assert a.commit(0) == ErrorCode.NONE
    stage.advance(1)
    assert (stage.state, stage.events[-2]) == (
        "Empty",
        MemberLeft("g", stage.now, a_who(a), Departure.SESSION_EXPIRED, silent_ms=SESSION, limit_ms=SESSION),
    )


def a_who(member: Member) -> Who:
    return Who(member.member_id, member.client_id, "/h")


def test_after_a_load_every_member_has_a_full_session() -> None:
    """Rules A11.3, A13.5 and A20.6; who has something to give up has its rebalance timeout again."""
    stage, a, _b = two()
    a.beat()
    stage.advance(3_000)
    stage.restart()
    stage.advance(4_999)
    assert set(stage.group.members) == {"a", "b"}
    assert stage.group.must_refresh
    stage.advance(1)
    assert set(stage.group.members) == {"b"}
    stage.advance(SESSION - 5_000)
    assert stage.group.members == {}


# -- the assignment interval


def test_the_next_target_waits_for_the_interval() -> None:
    """Rule A12.2: who joins meanwhile gets the old target's epoch and nothing."""
    stage = Stage({"group_consumer_assignment_interval_ms": 5_000}, t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    assert (b.join("t").member_epoch, b.partitions, stage.epochs, stage.state) == (2, set(), (3, 2), "Assigning")
    stage.advance(4_999)
    assert (a.beat().assignment, stage.epochs) == (None, (3, 2))
    stage.advance(1)
    assert (a.beat().assignment is not None, stage.epochs) == (True, (3, 3))


@pytest.mark.parametrize(("timer", "epochs_after"), [(True, (3, 3)), (False, (3, 2))])
def test_a_target_of_a_clock_that_was_ahead_keeps_nobody_waiting(timer: bool, epochs_after: tuple[int, int]) -> None:
    """Rule A12.2, an addition: the coordinator before had another wall clock, or this one was set back. Without the
    addition, as in Kafka, the next target waits until the clock is there again."""
    stage = Stage({"group_consumer_assignment_interval_ms": 5_000, "group_consumer_assignment_timer": timer}, t=6)
    stage.shard.wall_time = lambda now: WallTime(now + 60_000)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    stage.restart()  # with a wall clock that is not ahead
    b.join("t")
    assert stage.epochs == epochs_after


def test_the_target_timer_computes_it_when_its_time_has_come() -> None:
    """Rule A11, an addition: without a heartbeat."""
    stage = Stage({"group_consumer_assignment_interval_ms": 5_000, "group_consumer_assignment_timer": True}, t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    b.join("t")
    stage.advance(4_999)
    assert stage.epochs == (3, 2)
    stage.advance(1)
    assert stage.epochs == (3, 3)
    a.beat()
    a.ack()
    b.beat()
    b.leave()
    stage.advance(5_000)
    assert (stage.epochs, stage.group.target_of("a")) == ((4, 4), {(stage.id_of("t"), one) for one in range(6)})


FORMING = {
    "group_consumer_assignment_interval_ms": 1_000,
    "group_consumer_assignment_timer": True,
    "group_initial_rebalance_delay_quiet_ms": 250,
}


def test_a_group_that_forms_has_its_next_target_when_nobody_has_come_for_the_quiet_time() -> None:
    """Rule A12.13: the first member gets everything at once, the others need not wait for the whole interval."""
    stage = Stage(FORMING, t=6)
    a, b, c = stage.member("a"), stage.member("b"), stage.member("c")
    a.join("t")
    assert (a.partitions, stage.epochs) == ({*range(6)}, (2, 2))
    b.join("t")
    stage.advance(90)
    c.join("t")
    stage.advance(99)
    assert (b.beat().assignment, stage.epochs) == (None, (4, 2))
    stage.advance(1)
    assert stage.epochs == (4, 4)
    settle(stage, a, b, c)
    assert [len(one.partitions) for one in (a, b, c)] == [2, 2, 2]


def test_the_quiet_time_ends_with_the_interval_of_a_group_that_forms() -> None:
    """Rule A12.13: whoever comes as one of many waits no longer than on Kafka. From then on the interval counts."""
    stage = Stage(FORMING, t=6)
    for number in range(20):
        stage.member(f"m{number}").join("t")
        assert stage.epochs == (2 + number, 2)
        stage.advance(50)
    assert stage.epochs == (21, 21), "they waited until the interval was over"
    stage.member("late").join("t")
    stage.advance(999)
    assert stage.epochs == (22, 21)
    stage.advance(1)
    assert stage.epochs == (22, 22)


@pytest.mark.parametrize(("setting", "expected"), [(40, 40), (100, 100), (3_000, 100)])
def test_a_group_that_forms_is_quiet_for_a_tenth_of_a_second_at_most(setting: int, expected: int) -> None:
    """Rule A12.13: the next target costs little, for it stops nobody."""
    stage = Stage({**FORMING, "group_initial_rebalance_delay_quiet_ms": setting}, t=6)
    stage.member("a").join("t")
    stage.member("b").join("t")
    stage.advance(expected - 1)
    assert stage.epochs == (3, 2)
    stage.advance(1)
    assert stage.epochs == (3, 3)


@pytest.mark.parametrize("change", ["off", "settled", "large"])
def test_other_groups_wait_for_the_interval(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Rule A12.13: without the setting, when the group has formed, and if a target takes time."""
    stage = Stage({**FORMING, **({"group_initial_rebalance_delay_quiet_ms": 0} if change == "off" else {})}, t=6)
    a, b, c = stage.member("a"), stage.member("b"), stage.member("c")
    a.join("t")
    if change == "settled":
        stage.advance(1_000)
        b.join("t")
        settle(stage, a, b)
        b.leave()
        stage.advance(0)
    if change == "large":
        monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
        monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    before = stage.epochs[1]
    c.join("t")
    stage.advance(999)
    assert stage.epochs[1] == before
    stage.advance(1)
    assert stage.epochs[1] == stage.epochs[0] > before


def test_a_group_that_was_empty_forms_anew() -> None:
    """Rule A12.13."""
    stage = Stage(FORMING, t=6)
    a, b, c = stage.member("a"), stage.member("b"), stage.member("c")
    a.join("t")
    a.leave()
    stage.advance(1_000)
    b.join("t")
    c.join("t")
    before = stage.epochs[1]
    stage.advance(99)
    assert stage.epochs[1] == before
    stage.advance(1)
    assert stage.epochs[1] == stage.epochs[0] > before


@pytest.mark.parametrize(("setting", "expected"), [(0, 5_000), (250, 250), (10, 100), (9_000, 5_000)])
def test_who_waits_for_others_comes_again_sooner(setting: int, expected: int) -> None:
    """Rule A23.7, an addition."""
    stage = Stage({"group_consumer_heartbeat_interval_reconciling_ms": setting}, t=6)
    a, b = stage.member("a"), stage.member("b")
    assert a.join("t").heartbeat_interval_ms == 5_000
    assert b.join("t").heartbeat_interval_ms == expected
    assert a.beat().heartbeat_interval_ms == 5_000


# -- topics


def test_partitions_added_and_topics_deleted() -> None:
    """Rules A13.2, A13.4 and A13.6: the next heartbeat of anybody."""
    stage = Stage(t=2, u=1)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    b.join("t")
    settle(stage, a, b)
    epoch = stage.group.group_epoch
    stage.set_topics(u=5)
    a.beat()
    assert stage.group.group_epoch == epoch
    stage.set_topics(t=4)
    b.beat()
    assert stage.group.group_epoch == epoch + 1
    settle(stage, a, b)
    assert a.partitions | b.partitions == {0, 1, 2, 3}
    old = stage.id_of("t")
    stage.set_topics(t=0)
    stage.set_topics(t=3)
    assert stage.id_of("t") != old
    settle(stage, a, b)
    assert a.wanted | b.wanted == {(stage.id_of("t"), number) for number in range(3)}


def test_a_refresh_that_could_not_be_written_runs_again() -> None:
    """Rule A13.4."""
    stage = Stage(t=2)
    member = stage.member("a")
    member.join("t")
    stage.holds_writes = True
    stage.set_topics(t=4)
    assert member.beat() is None
    stage.fail()
    assert (stage.epochs, stage.group.must_refresh) == ((2, 2), True)
    stage.holds_writes = False
    assert (member.beat().member_epoch, member.partitions) == (3, {0, 1, 2, 3})


@pytest.mark.parametrize("strict", [False, True])
def test_what_was_never_confirmed_is_asked_back(strict: bool) -> None:
    """Rule A8.12, an addition: a callback ran while more was given, and the ack of before does not give it up.

    On Kafka the next owner has it at once, and for a round trip both may.
    """
    stage = Stage({"strict": strict}, t=2)
    a = stage.member("a")
    a.join("t")
    assert a.partitions == {0, 1}
    a.send(subscribed_topic_names=[], topic_partitions=[])
    assert a.known.state is (MemberState.STABLE if strict else MemberState.UNREVOKED_PARTITIONS)
    assert (a.wanted, len(a.known.revoking)) == (set(), 0 if strict else 2)
    a.ack()
    assert (a.known.state, stage.group.owners) == (MemberState.STABLE, {})
    a.join("t")
    a.ack()
    a.send(subscribed_topic_names=[], topic_partitions=[])
    assert (a.known.state, stage.group.owners) == (MemberState.STABLE, {})


def test_what_was_never_heard_of_is_told_again() -> None:
    """Rule A8.13: the answer with t-1 is lost, and t-1 is to go to another member. Who does not know of it would never
    say that it has given it up, and would be fenced."""
    stage = Stage(t=2)
    a, b, c = (stage.member(name) for name in "abc")
    for one in (a, b):
        one.join("t")
    settle(stage, a, b)
    b.leave()
    known = (a.epoch, set(a.wanted))
    assert a.beat().assignment is not None
    a.epoch, a.wanted = known  # it was lost
    c.join("t")
    a.send(rebalance_timeout_ms=5_000, subscribed_topic_names=["t"], topic_partitions=a.rows(a.owned))
    assert (a.known.state, a.partitions) == (MemberState.STABLE, {0, 1})
    a.ack()
    assert (a.known.state, len(a.wanted)) == (MemberState.UNREVOKED_PARTITIONS, 1)
    settle(stage, a, c)
    assert a.partitions | c.partitions == {0, 1}
    assert a.known.member_epoch == stage.group.target_epoch
