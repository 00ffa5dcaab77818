"""Rules A23.6 and A23.8: heartbeats that have nothing to tell wait until there is something."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.consumer import holds
from equipoise.coordinator.consumer.assignment import epochs
from equipoise.coordinator.consumer.assignment.target import TargetRequest
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


def test_a_crowd_is_looked_at_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whom a target concerns are so many that even the look at them is sliced."""
    monkeypatch.setattr(holds, "AT_ONCE", 8)
    monkeypatch.setattr(holds, "CROWD", 10)
    stage, crowd = settled(*(f"m{number:03}" for number in range(20)), t=20)
    tokens = [held(one) for one in crowd]
    stage.set_topics(t=40)
    told = [0]
    while told[-1] < len(tokens):
        stage.run(stage.shard.tick(stage.now))
        told.append(sum(token in stage.replies for token in tokens))
    assert told == [0, 0, 8, 16, 20]
    assert {len(one.known.assigned) for one in crowd} == {2}


def test_records_of_a_large_target_are_made_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.7."""
    stage, members = settled("a", "b", "c")
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    monkeypatch.setattr(epochs, "MADE_AT_ONCE", 1)
    stage.set_topics(t=9)
    before, written, ticks = stage.epochs, len(stage.log), 0
    while stage.epochs[1] == before[1]:
        stage.run(stage.shard.tick(stage.now))
        ticks += 1
    assert (ticks, stage.types(written)) == (4, ["3", "7", "7", "7", "6"])
    settle(stage, *members)
    assert [len(one.partitions) for one in members] == [3, 3, 3]


def asked_beside(monkeypatch: pytest.MonkeyPatch) -> tuple[Stage, list[Member], TargetRequest]:
    """A group whose next target is being computed by the runner."""
    stage, members = settled("a", "b")
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage.shard.computes_beside = True
    stage.set_topics(t=8)
    step = stage.shard.tick(stage.now)
    stage.run(step)
    (asked,) = step.targets
    return stage, members, asked


def test_a_large_target_is_computed_beside_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.7. Meanwhile nobody asks for another one."""
    stage, members, asked = asked_beside(monkeypatch)
    before = stage.epochs
    for one in members:
        assert one.beat().error_code == ErrorCode.NONE
    step = stage.shard.tick(stage.now)
    stage.run(step)
    assert (list(step.targets), stage.epochs) == ([], before)
    stage.run(stage.shard.target_computed(asked, asked.compute(), stage.now))
    settle(stage, *members)
    assert (stage.epochs, [len(one.partitions) for one in members]) == ((before[0], before[0]), [4, 4])
    stage.run(stage.shard.target_computed(asked, {}, stage.now))
    assert stage.group.computed is None, "nobody waits for it"


def test_after_a_target_that_could_not_be_computed_the_next_heartbeat_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rule A12.7."""
    stage, (a, b), asked = asked_beside(monkeypatch)
    stage.run(stage.shard.target_computed(asked, None, stage.now))
    a.beat()
    step = stage.shard.tick(stage.now)
    stage.run(step)
    (again,) = step.targets
    assert again.number > asked.number
    stage.run(stage.shard.target_computed(again, again.compute(), stage.now))
    settle(stage, a, b)
    assert (len(a.partitions), len(b.partitions)) == (4, 4)


def test_a_large_target_of_a_group_that_was_empty_meanwhile_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, (a, b) = settled("a", "b")
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage.set_topics(t=8)
    stage.run(stage.shard.tick(stage.now))
    for one in (a, b):
        one.leave()
    newcomers = [stage.member(name) for name in "cd"]
    for one in newcomers:
        one.join("t")
    settle(stage, *newcomers)
    assert [len(one.partitions) for one in newcomers] == [4, 4]


def test_a_large_target_does_not_outlive_what_it_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A21.2: the epoch at which it was computed could not be written."""
    stage, (a, b) = settled("a", "b")
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage.holds_writes = True
    stage.set_topics(t=8)
    before = stage.epochs
    stage.run(stage.shard.tick(stage.now))
    assert stage.epochs == (before[0] + 1, before[1])
    stage.fail()
    assert stage.epochs == before
    stage.holds_writes = False
    settle(stage, a, b)
    assert (len(a.partitions), len(b.partitions)) == (4, 4)


def large_target_made(monkeypatch: pytest.MonkeyPatch, *members: Member) -> None:
    """All but the last record of the next target are made, and it takes effect with the next tick. A partition was
    added: it gives the last member more, and leaves the others what they have."""
    stage = members[0].stage
    monkeypatch.setattr(epochs, "LARGE_GROUP", 2)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    monkeypatch.setattr(epochs, "MADE_AT_ONCE", 1)
    stage.set_topics(t=7)
    for _ in members:
        stage.run(stage.shard.tick(stage.now))
    computed = stage.group.computed
    assert computed is not None
    assert (len(computed.left), computed.records) == (1, {})


def test_who_goes_and_comes_back_while_a_target_is_made_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.7: the target it had is gone with it, though the new one is the same. `check` compares with the log."""
    stage, members = settled("a", "b", "c")
    large_target_made(monkeypatch, *members)
    members[0].leave()
    members[0].join("t")
    stage.run(stage.shard.tick(stage.now))
    assert stage.group.targets.keys() == set(stage.group.target_owners.values()) == {"b", "c"}
    settle(stage, *members)
    assert sorted(len(one.partitions) for one in members) == [2, 2, 3]


def test_a_static_member_replaced_while_a_target_is_made_gets_what_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.7: the target on its way does not know the successor, whom no epoch tells of. It is computed anew."""
    stage = Stage(TIMER, t=6)
    a, b, s = stage.member("a"), stage.member("b"), stage.member("s", instance="i")
    for one in (a, b, s):
        one.join("t")
    settle(stage, a, b, s)
    large_target_made(monkeypatch, a, b, s)
    s.leave(epoch=-2)
    new = stage.member("s2", instance="i")
    new.join("t")
    assert stage.group.computed is None
    settle(stage, a, b, new)
    assert sorted(len(one.partitions) for one in (a, b, new)) == [2, 2, 3]


def test_a_large_target_that_cannot_be_written_has_never_been(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A21.2: targets and the index of their owners are what they were, and the next try succeeds."""
    stage, members = settled("a", "b", "c")
    large_target_made(monkeypatch, *members)
    before, owners = dict(stage.group.targets), dict(stage.group.target_owners)
    stage.holds_writes = True
    epochs_before = stage.epochs
    stage.run(stage.shard.tick(stage.now))
    assert stage.epochs[1] > epochs_before[1]
    stage.fail()
    assert (stage.epochs, stage.group.targets, stage.group.target_owners) == (epochs_before, before, owners)
    stage.holds_writes = False
    stage.advance(1_000)
    settle(stage, *members)
    assert sorted(len(one.partitions) for one in members) == [2, 2, 3]


GATHERING = {
    **TIMER,
    "group_consumer_assignment_interval_ms": 1_000,
    "group_initial_rebalance_delay_ms": 3_000,
    "group_initial_rebalance_delay_quiet_ms": 250,
}


def test_the_first_target_of_many_partitions_waits_until_nobody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.15: who comes first does not get all, only to give most of it up."""
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage = Stage(GATHERING, t=6)
    members = [stage.member(name) for name in "abc"]
    for one in members:
        one.join("t")
        stage.advance(200)
    assert ([one.partitions for one in members], stage.state) == ([set()] * 3, "Assigning")
    stage.advance(50)
    assert [len(one.beat().assignment.topic_partitions[0].partitions) for one in members] == [2, 2, 2]
    late = stage.member("d")
    late.join("t")
    assert late.partitions == set(), "later targets keep to the interval"
    stage.advance(1_000)
    assert stage.epochs == (5, 5)


def test_the_first_target_waits_no_longer_than_the_initial_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.15."""
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage = Stage(GATHERING, t=6)
    for number in range(15):
        stage.member(f"m{number}").join("t")
        stage.advance(200)
    assert stage.group.target_epoch == 16
    assert len(stage.group.targets) == 15


def test_a_group_that_was_empty_waits_for_its_first_target_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A12.15."""
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 6)
    stage = Stage(GATHERING, t=6)
    for _ in range(2):
        a, b = stage.member("a"), stage.member("b")
        a.join("t")
        b.join("t")
        assert (a.partitions, b.partitions) == (set(), set())
        stage.advance(250)
        settle(stage, a, b)
        assert (len(a.partitions), len(b.partitions)) == (3, 3)
        a.leave()
        b.leave()
        stage.advance(10_000)


def test_the_first_target_of_few_partitions_waits_for_nobody() -> None:
    """Rule A12.15."""
    stage = Stage(GATHERING, t=6)
    a = stage.member("a")
    a.join("t")
    assert a.partitions == {0, 1, 2, 3, 4, 5}


def test_a_target_of_mixed_subscriptions_waits_until_the_shard_is_prepared() -> None:
    """Rule A12.14: the runner loads what it needs beside the loop."""
    stage = Stage(TIMER, t=4, u=4)
    stage.shard.is_prepared = False
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    assert a.partitions == {0, 1, 2, 3}, "equal subscriptions need nothing"
    a.ack()
    b.join("t", "u")
    stage.advance(100)
    assert (b.partitions, stage.state) == (set(), "Assigning")
    stage.shard.is_prepared = True
    settle(stage, a, b)
    assert (len(a.partitions), len(b.wanted)) == (4, 4)


SOON = {**TIMER, "group_consumer_heartbeat_interval_reconciling_ms": 250}


def interrupted(member: Member, after: int) -> int:
    """The interval that the answer names, when a held heartbeat was ended by another request after so long."""
    stage, token = member.stage, held(member)
    stage.advance(after)
    stage.run(stage.shard.release_heartbeat("g", member.member_id, stage.now, True))
    return int(answer(member, token).heartbeat_interval_ms)


def test_a_hold_that_ends_early_because_of_another_request_is_made_up_for_soon() -> None:
    """Rule A23.9: Java commits as often as it sends heartbeats, and just behind them. Not more than once in 2.5 s."""
    stage = Stage(SOON, t=2)
    a = stage.member("a")
    a.join("t")
    settle(stage, a)
    assert interrupted(a, 40) == 250
    assert interrupted(a, 40) == 5_000, "it was asked just now"
    stage.advance(2_420)
    assert interrupted(a, 40) == 250
    assert stage.group.presence_of("a").told_interval_ms == 250
    assert interrupted(a, 2_500) == 5_000, "it was held for long"


@pytest.mark.parametrize("how", ["off", "its time is over", "sent past"])
def test_other_ends_of_a_hold_ask_nobody_to_come_soon(how: str) -> None:
    """Rule A23.9."""
    stage = Stage({**SOON, **({"group_consumer_heartbeat_interval_reconciling_ms": 0} if how == "off" else {})}, t=2)
    a = stage.member("a")
    a.join("t")
    settle(stage, a)
    if how == "off":
        assert interrupted(a, 40) == 5_000
        return
    token = held(a)
    if how == "sent past":
        stage.run(stage.shard.release_heartbeat("g", "a", stage.now))
    else:
        stage.advance(HOLD)
    assert answer(a, token).heartbeat_interval_ms == 5_000


LOSING = {**TIMER, "group_lost_connection_grace_ms": 2_000}


def lose_b(*, is_held: bool) -> tuple[Stage, Member]:
    """b has lost its connection, just after a heartbeat. a is there."""
    stage = Stage(LOSING, t=2)
    a, b = stage.member("a"), stage.member("b")
    for one in (a, b):
        one.join("t")
    settle(stage, a, b)
    if is_held:
        held(b)
    else:
        b.beat()
    stage.run(stage.shard.connection_lost("g", "b", stage.now))
    return stage, a


def assert_gone_after(stage: Stage, a: Member, limit: int) -> None:
    stage.advance(limit - 1)
    assert stage.group.members.keys() == {"a", "b"}
    a.beat()
    stage.advance(1)
    assert stage.group.members.keys() == {"a"}


@pytest.mark.parametrize("is_held", [True, False])
def test_a_lost_member_whose_heartbeat_was_under_way_has_the_grace(is_held: bool) -> None:
    """Rule 7.9.3: it sees that the heartbeat has failed, and would connect again before its next one is due."""
    stage, a = lose_b(is_held=is_held)
    assert_gone_after(stage, a, 2_000 if is_held else 5_500)


def test_a_lost_member_whose_client_is_back_has_until_its_next_heartbeat() -> None:
    """Rule 7.9.3: librdkafka connects again at once, and sends its next heartbeat when it is due."""
    stage, a = lose_b(is_held=True)
    stage.advance(500)
    stage.run(stage.shard.client_came("g", "b", stage.now))
    assert_gone_after(stage, a, 5_000)


@pytest.mark.parametrize("when", ["it speaks", "it is gone", "nobody was lost"])
def test_a_client_that_comes_changes_nothing_else(when: str) -> None:
    """Rule 7.9.3."""
    stage, a = lose_b(is_held=True)
    if when == "it speaks":
        stage.run(stage.shard.release_heartbeat("g", "b", stage.now))
        stage.member("b").send(stage.group.members["b"].member_epoch)
    elif when == "it is gone":
        stage.advance(2_000)
    stage.run(stage.shard.client_came("g", "a" if when == "nobody was lost" else "b", stage.now))
    stage.run(stage.shard.client_came("nowhere", "b", stage.now))
    stage.advance(2_000)
    a.beat()
    expected = {"a", "b"} if when == "it speaks" else {"a"}
    assert stage.group.members.keys() == expected
