"""Rules A23.6 and A23.8: heartbeats that have nothing to tell wait until there is something."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.consumer import holds
from equipoise.coordinator.consumer.assignment import epochs
from equipoise.coordinator.consumer.states import MemberState
from equipoise.wire.errors import ErrorCode
from tests.consumer_groups.stage import Member, Stage, settle

HOLD = 4_500
TIMER = {"group_consumer_assignment_timer": True}


def settled(*names: str, **topics: int) -> tuple[Stage, list[Member]]:
    stage = Stage(TIMER, **(topics or {"t": 6}))
    members = [stage.member(name) for name in names]
    for member in members:
        member.join("t")
    settle(stage, *members)
    return stage, members


def held(member: Member, **fields: Any) -> int:
    """The token of a heartbeat that waits."""
    assert member.beat(hold_ms=HOLD, **fields) is None
    assert member.stage.shard.is_held("g", member.member_id)
    return member.stage.last_token


def answer(member: Member, token: int) -> Any:
    """What the heartbeat was answered, which the member takes; None: it waits still."""
    found: Any = member.stage.replies.get(token)
    if found is not None:
        member.take(found)
    return found


def test_a_held_heartbeat_is_answered_when_its_time_is_over() -> None:
    stage, (a,) = settled("a")
    token, written = held(a), len(stage.log)
    stage.advance(HOLD - 1)
    assert answer(a, token) is None
    stage.advance(1)
    said = answer(a, token)
    assert (said.error_code, said.member_epoch, said.assignment, len(stage.log)) == (0, 2, None, written)
    assert not stage.shard.is_held("g", "a")


def test_a_join_costs_round_trips_and_not_intervals() -> None:
    """Who has to give up is told at once, says so at once, and who waits for it has it at once. No time passes."""
    stage, (a,) = settled("a")
    token, began = held(a), stage.now
    b = stage.member("b")
    b.join("t")
    answer(a, token)
    assert (len(a.partitions), a.known.state) == (3, MemberState.UNREVOKED_PARTITIONS)
    token = held(b)
    a.ack()
    answer(b, token)
    assert (b.partitions | a.partitions, stage.now, stage.state) == (set(range(6)), began, "Stable")


def test_who_waits_since_before_the_target_has_it_at_once_too() -> None:
    """A newcomer is held while the target is still to come. It is behind the target then, and waits all the same."""
    stage = Stage({**TIMER, "group_consumer_assignment_interval_ms": 1_000}, t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    b.join("t")
    assert stage.state == "Assigning"
    tokens = [held(a), held(b)]
    stage.advance(1_000)
    answer(a, tokens[0])
    assert (len(a.partitions), stage.replies.get(tokens[1])) == (3, None)
    a.ack()
    assert answer(b, tokens[1]) is not None
    assert (b.partitions | a.partitions, stage.state) == (set(range(6)), "Stable")


def test_a_new_epoch_is_news() -> None:
    """After an acknowledgement the member is at the target epoch. Its commits and its OffsetFetch need to know."""
    stage, (a,) = settled("a")
    b = stage.member("b")
    b.join("t")
    assert a.beat(hold_ms=HOLD).member_epoch == 2
    assert a.ack(hold_ms=HOLD).member_epoch == 3


def test_who_has_something_to_give_up_is_never_held() -> None:
    stage, (a,) = settled("a")
    b = stage.member("b")
    b.join("t")
    assert a.beat(hold_ms=HOLD) is not None
    assert a.beat(hold_ms=HOLD) is not None


def test_who_is_not_concerned_is_left_alone() -> None:
    stage, (a, b) = settled("a", "b", t=4, u=2)
    tokens, epochs = [held(a), held(b)], stage.epochs
    stage.member("c").join("u")
    assert stage.epochs == (epochs[0] + 1, epochs[1] + 1)
    assert (stage.group.target_of("a"), stage.group.target_of("b")) == (a.wanted, b.wanted)
    assert [stage.replies.get(token) for token in tokens] == [None, None]


def test_a_leave_and_new_partitions_wake_whoever_gains() -> None:
    """Rule A11: by the target timer, without a heartbeat of anybody."""
    stage, (a, b) = settled("a", "b")
    token = held(a)
    b.leave()
    stage.advance(1_000)
    answer(a, token)
    assert a.partitions == set(range(6))
    token = held(a)
    stage.set_topics(t=8)
    stage.advance(1)
    answer(a, token)
    assert a.partitions == set(range(8))


def test_a_member_that_speaks_again_ends_its_hold() -> None:
    stage, (a,) = settled("a")
    token = held(a)
    assert a.beat().error_code == ErrorCode.NONE
    assert answer(a, token).member_epoch == 2
    token = held(a)
    stage.run(stage.shard.release_heartbeat("g", "a", stage.now))
    assert answer(a, token).member_epoch == 2


def test_who_leaves_or_is_removed_or_unloaded_hears_it() -> None:
    """Rules A11.1 and A21.5."""
    stage, (a, b) = settled("a", "b")
    token = held(a)
    a.leave()
    assert answer(a, token).error_code == ErrorCode.NONE
    settle(stage, b)
    token = held(b)
    group = stage.group
    stage.shard.timers.arm(group.presence_of("b").timer, stage.now)
    stage.advance(0)
    assert answer(b, token).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    b.join("t")
    token = held(b)
    stage.run(stage.shard.close(stage.now))
    assert answer(b, token).error_code == ErrorCode.NOT_COORDINATOR


def test_a_change_of_the_subscription_is_answered_at_once() -> None:
    _, (a,) = settled("a", t=2, u=2)
    assert a.send(subscribed_topic_names=["t", "u"], hold_ms=HOLD) is not None


def test_a_hold_in_a_group_that_cannot_be_written_ends_well() -> None:
    """The newcomer's join fails; who was woken by it is answered with the same error, and goes on as before."""
    stage, (a,) = settled("a")
    token = held(a)
    stage.holds_writes = True
    b = stage.member("b")
    assert b.join("t") is None
    joined = stage.last_token
    stage.fail(writes=2)
    for one in (token, joined):
        assert answer(a, one).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (set(stage.group.members), a.known.state) == ({"a"}, MemberState.STABLE)
    stage.holds_writes = False
    assert a.beat().error_code == ErrorCode.NONE


def test_a_crowd_hears_of_a_target_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others come between two portions of those whom a target calls."""
    monkeypatch.setattr(holds, "AT_ONCE", 8)
    stage, crowd = settled(*(f"m{number:03}" for number in range(20)), t=20)
    tokens = [held(one) for one in crowd]
    stage.set_topics(t=40)
    told = [0]
    while told[-1] < len(tokens):
        stage.run(stage.shard.tick(stage.now))
        told.append(sum(token in stage.replies for token in tokens))
    assert told == [0, 8, 16, 20]


def test_only_whom_a_target_concerns_is_woken() -> None:
    stage, members = settled("a", "b", "c")
    tokens = [held(one) for one in members]
    stage.set_topics(t=7)
    stage.advance(1)
    assert sum(token in stage.replies for token in tokens) == 1


def test_the_target_of_a_large_group_takes_effect_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.7. A member that comes in between waits for the next target; one that goes has none."""
    stage, (a, b) = settled("a", "b")
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage.set_topics(t=8)
    before = stage.epochs
    stage.run(stage.shard.tick(stage.now))
    assert stage.epochs == (before[0] + 1, before[1]), "computed, and not in effect"
    b.leave()
    c = stage.member("c")
    c.join("t")
    assert (c.partitions, stage.epochs) == (set(), (before[0] + 3, before[1]))
    stage.run(stage.shard.tick(stage.now))
    assert stage.epochs == (before[0] + 3, before[0] + 1)
    assert stage.group.targets.keys() == {"a"}
    settle(stage, a, c)
    assert (len(a.partitions), len(c.partitions)) == (4, 4)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_lost_member_whose_heartbeat_was_under_way_has_twice_the_grace(is_held: bool) -> None:
    """Rule 7.9: it sees that the heartbeat has failed, and need not wait for its interval to be back."""
    stage = Stage({**TIMER, "group_lost_connection_grace_ms": 2_000}, t=2)
    a, b = stage.member("a"), stage.member("b")
    for one in (a, b):
        one.join("t")
    settle(stage, a, b)
    if is_held:
        held(b)
    else:
        b.beat()
    stage.run(stage.shard.connection_lost("g", "b", stage.now))
    limit = 4_000 if is_held else 5_500
    stage.advance(limit - 1)
    assert stage.group.members.keys() == {"a", "b"}
    a.beat()
    stage.advance(1)
    assert stage.group.members.keys() == {"a"}
