"""Rule A10: static members leave for a while, come back, and are told apart from impostors."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.states import MemberState
from equipoise.wire.errors import ErrorCode
from tests.consumer_groups.stage import SESSION, Member, Stage, settle


def pair(**config: object) -> tuple[Stage, Member, Member]:
    stage = Stage(dict(config), t=6, u=2)
    a, s = stage.member("a"), stage.member("s", instance="i")
    a.join("t")
    s.join("t")
    settle(stage, a, s)
    return stage, a, s


def test_a_static_member_comes_back_to_its_partitions() -> None:
    """Rules A10.2, A10.3, A9.2 and A6.2: no bump, nobody is disturbed; the records are Kafka's."""
    stage, _a, s = pair()
    had, epochs, written = s.wanted, stage.epochs, len(stage.log)
    answer = s.leave(-2)
    assert (answer.member_epoch, answer.member_id, answer.heartbeat_interval_ms) == (-2, "s", 0)
    assert (stage.types(written), stage.state, s.known.member_epoch) == (["8"], "Reconciling", -2)
    assert set(s.known.assigned.values()) == {0}
    back = stage.member("s2", instance="i")
    written = len(stage.log)
    assert back.join("t").member_epoch == epochs[1]
    assert (back.wanted, stage.epochs, stage.state) == (had, epochs, "Stable")
    assert stage.types(written) == ["8t", "7t", "5t", "5", "7", "8", "5", "8"]
    assert stage.group.static_members == {"i": "s2"}


def test_a_static_member_comes_back_with_other_topics() -> None:
    """Rule A10.3: a bump and a new target, in which it inherits the old one."""
    stage, a, s = pair()
    s.leave(-2)
    epoch = stage.group.group_epoch
    back = stage.member("s2", instance="i")
    back.join("t", "u")
    assert stage.group.group_epoch == epoch + 1
    settle(stage, a, back)
    assert len(a.wanted) + len(back.wanted) == 8


def test_an_instance_id_in_use_is_refused() -> None:
    """Rules A3.16 and A10.4."""
    stage, _a, s = pair()
    known = s.known
    answer = stage.member("x", instance="i").join("t")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member x with instance id i cannot join the group because the instance id is owned by s member.",
    )
    assert s.known == known


@pytest.mark.parametrize("strict", [False, True])
def test_a_static_member_that_lost_its_answer_joins_again(strict: bool) -> None:
    """Rule A3.16, an addition: on Kafka it is its own rival, and can only die."""
    stage, _a, s = pair(strict=strict)
    had, epochs = s.wanted, stage.epochs
    answer = s.join("t")
    assert answer.error_code == (ErrorCode.UNRELEASED_INSTANCE_ID if strict else ErrorCode.NONE)
    assert (s.wanted, stage.epochs) == (had, epochs)


def test_the_old_incarnation_is_told() -> None:
    """Rule A10.5."""
    stage, _a, s = pair()
    s.leave(-2)
    stage.member("s2", instance="i").join("t")
    fenced = s.beat()
    assert (fenced.error_code, fenced.error_message) == (
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member s with instance id i was fenced by member s2.",
    )
    assert s.send(instance_id=None).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.leave().error_code == ErrorCode.FENCED_INSTANCE_ID


def test_who_does_not_come_back_is_removed_with_its_session() -> None:
    """Rules A10.2 and A10.7: it runs on from the last heartbeat."""
    stage, a, s = pair()
    stage.advance(SESSION // 2)
    a.beat()
    s.leave(-2)
    stage.advance(SESSION // 2 - 1_000)
    assert "s" not in stage.group.members or s.known.is_away
    stage.advance(2_000)
    assert set(stage.group.members) == {"a"}


def test_partitions_of_who_is_away_are_waited_for() -> None:
    """Rule A9.4."""
    stage, a, s = pair()
    s.leave(-2)
    b = stage.member("b")
    b.join("t")
    for _ in range(3):
        a.ack()
        b.ack()
    assert b.known.state is MemberState.UNRELEASED_PARTITIONS
    back = stage.member("s2", instance="i")
    back.join("t")
    settle(stage, a, b, back)
    assert [len(one.wanted) for one in (a, b, back)] == [2, 2, 2]


def test_leaving_for_good_needs_the_instance_id_or_the_member_id() -> None:
    """Rules A10.6 and A3.22: the epoch is not compared."""
    stage, _a, s = pair()
    epoch = stage.group.group_epoch
    assert s.send(-1).member_epoch == -1
    assert (set(stage.group.members), stage.group.static_members) == ({"a"}, {})
    assert stage.group.group_epoch == epoch + 1


def test_a_new_instance_id_frees_the_old_one() -> None:
    """Rule A10.1 (KAFKA-20747)."""
    stage, _a, s = pair()
    s.instance = "j"
    assert s.join("t").error_code == ErrorCode.NONE
    assert stage.group.static_members == {"j": "s"}
    assert stage.member("x", instance="i").join("t").error_code == ErrorCode.NONE


def test_commits_of_the_successor_count_from_the_beginning() -> None:
    """Rule A17.5: what it has inherited was assigned at epoch 0; the old incarnation may commit nothing."""
    stage, _a, s = pair()
    epoch, one = s.epoch, min(s.partitions)
    s.leave(-2)
    back = stage.member("s2", instance="i")
    back.join("t")
    assert back.commit(one, epoch=epoch - 1) == ErrorCode.NONE
    assert s.commit(one, epoch=epoch) == ErrorCode.UNKNOWN_MEMBER_ID
