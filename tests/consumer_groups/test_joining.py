"""Rules A2, A3, A5 and A6: the first heartbeats, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.consumer.holds import AT_ONCE
from equipoise.coordinator.events import MemberJoined, MemberLeft, TargetReached
from equipoise.coordinator.reasons import Who
from equipoise.wire.apis.k68_consumer_group_heartbeat import HeartbeatTopicPartitions
from equipoise.wire.errors import ErrorCode
from tests.consumer_groups.stage import Stage, settle, topic_id

JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 5_000,
    "topic_partitions": [],
    "subscribed_topic_names": ["t"],
}


def refused(stage: Stage, version: int = 1, **fields: Any) -> tuple[int, str | None]:
    """The error, which has neither member id nor epoch nor interval; and nothing is written."""
    written = len(stage.log)
    member = stage.member("m", version=version)
    answer = member.send(fields.pop("member_epoch", 0), **fields)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (
        None,
        0,
        0,
        None,
    )
    assert len(stage.log) == written
    return answer.error_code, answer.error_message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({**JOIN, "member_id": ""}, "MemberId can't be empty."),
        ({"member_epoch": 5, "member_id": " "}, "MemberId can't be empty."),
        ({**JOIN, "group_id": ""}, "GroupId can't be empty."),
        ({**JOIN, "group_id": " "}, "GroupId can't be empty."),
        ({**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
        ({**JOIN, "rack_id": " "}, "RackId can't be empty."),
        ({**JOIN, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({**JOIN, "topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {**JOIN, "topic_partitions": [HeartbeatTopicPartitions(topic_id=topic_id("t"), partitions=[0])]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            {**JOIN, "subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests_have_their_own_words(fields: dict[str, Any], message: str) -> None:
    """Rules A3.5 to A3.8."""
    assert refused(Stage(t=1), **fields) == (ErrorCode.INVALID_REQUEST, message)


def test_the_first_fault_counts() -> None:
    """Rules A3.5 to A3.9, in this order."""
    faults: dict[str, Any] = {"member_id": "", "group_id": "", "server_assignor": "nope", "member_epoch": 0}
    assert refused(Stage(), **faults)[1] == "MemberId can't be empty."
    assert refused(Stage(), **{**faults, "member_id": "m"})[1] == "GroupId can't be empty."
    assert refused(Stage(), **{**JOIN, "server_assignor": "nope", "rebalance_timeout_ms": -1})[0] == 42


@pytest.mark.parametrize("epoch", [0, 3, -1])
def test_an_unknown_assignor_is_refused_also_on_leaving(epoch: int) -> None:
    """Rule A3.9."""
    fields = {**JOIN, "member_epoch": epoch, "server_assignor": "nope"}
    message = "ServerAssignor nope is not supported. Supported assignors: uniform, range."
    assert refused(Stage(t=1), **fields) == (ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def test_in_v0_the_coordinator_makes_the_member_id() -> None:
    """Rules A3.5 and A5.1."""
    stage = Stage(t=2)
    member = stage.member("", version=0)
    answer = member.join("t")
    assert (answer.member_id, answer.member_epoch) == ("id-1", 2)
    assert member.beat().error_code == ErrorCode.NONE
    assert list(stage.group.members) == ["id-1"]


@pytest.mark.parametrize("epoch", [5, -1])
def test_an_unknown_group_is_not_found(epoch: int) -> None:
    """Rule A3.11."""
    assert refused(Stage(), member_epoch=epoch) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")


def test_an_unknown_member_is_refused() -> None:
    """Rules A3.14, A3.17 and A3.22."""
    stage = Stage(t=1)
    stage.member("a").join("t")
    assert refused(stage, member_epoch=2)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(stage, member_epoch=2, instance_id="i")[0] == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(stage, member_epoch=-1)[0] == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_member_gets_all_and_the_records_have_kafkas_order() -> None:
    """Rules A5.1 to A5.9, A4.2 and A6.1."""
    stage = Stage(t=6)
    member = stage.member("a")
    answer = member.join("t")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.NONE, "a", 2)
    assert (answer.heartbeat_interval_ms, member.partitions) == (5_000, {0, 1, 2, 3, 4, 5})
    assert stage.types() == ["5", "3", "7", "6", "8"]
    assert stage.group.metadata_hash != 0
    assert (stage.state, stage.epochs) == ("Stable", (2, 2))
    assert stage.events == [
        MemberJoined("g", stage.now, Who("a", "a", "/h")),
        TargetReached("g", stage.now, 2, overtaken=False),
    ]


def test_a_join_that_is_repeated_is_answered_alike_and_writes_nothing() -> None:
    """Rules A2.1 and A3.18: the answer was lost."""
    stage = Stage(t=6)
    member = stage.member("a")
    first, written = member.join("t"), len(stage.log)
    assert member.join("t") == first
    assert len(stage.log) == written


def test_a_member_without_topics_does_not_bump() -> None:
    """Rules A5.6 and A6.2: records 5 and 8 only."""
    stage = Stage(t=6)
    member = stage.member("a")
    answer = member.join()
    assert (answer.member_epoch, member.partitions, stage.types()) == (1, set(), ["5", "8"])
    assert (stage.state, stage.epochs) == ("Stable", (1, 1))


def test_a_topic_that_does_not_exist_yet_comes_later() -> None:
    """Rules A12.3, A13.1 and A13.2."""
    stage = Stage()
    member = stage.member("a")
    assert (member.join("t").member_epoch, member.partitions) == (2, set())
    stage.set_topics(t=2)
    assert (member.beat().member_epoch, member.partitions) == (3, {0, 1})


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_tells_nothing() -> None:
    """Rules A2.2, A2.3 and A5.3: names are a set."""
    stage = Stage(t=2, u=1)
    member = stage.member("a")
    member.join("t", "u")
    written = len(stage.log)
    assert member.beat().assignment is None
    again = member.send(subscribed_topic_names=["u", "t", "t"])
    assert (again.assignment, again.member_epoch, len(stage.log)) == (None, 2, written)
    full = member.send(subscribed_topic_names=["t", "u"], rebalance_timeout_ms=5_000, topic_partitions=[])
    assert full.assignment is not None
    assert len(stage.log) == written


def test_other_fields_are_noted_and_do_not_bump() -> None:
    """Rules A5.3 and A6.2: client, rack, rebalance timeout. Null keeps what there is."""
    stage = Stage(t=2)
    member = stage.member("a")
    member.join("t", rack_id="r", server_assignor="range")
    for fields in (
        {"host": "/other"},
        {"rack_id": "s", "host": "/other"},
        {"rebalance_timeout_ms": 9, "host": "/other"},
    ):
        written = len(stage.log)
        member.send(**fields)
        assert (stage.types(written), stage.epochs) == (["5"], (2, 2))
    known = member.known
    assert (known.client_host, known.rack_id, known.rebalance_timeout_ms) == ("/other", "s", 9)
    assert (known.server_assignor, known.subscribed_topic_names) == ("range", {"t"})


def test_the_size_limit_turns_newcomers_away() -> None:
    """Rule A3.13: a member of the group goes on, and a static one comes back."""
    stage = Stage({"group_consumer_max_size": 2}, t=2)
    a, b = stage.member("a"), stage.member("b", instance="i")
    a.join("t")
    b.join("t")
    message = "The consumer group has reached its maximum capacity of 2 members."
    assert refused(stage, **JOIN) == (ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    assert a.join("t").error_code == ErrorCode.NONE
    b.leave(-2)
    assert stage.member("b2", instance="i").join("t").error_code == ErrorCode.NONE


def test_the_preferred_assignor_is_voted_and_its_change_bumps() -> None:
    """Rules A12.1, A5.5 and A6.1."""
    stage = Stage(t=2)
    a, b, c = (stage.member(name) for name in "abc")
    a.join("t")
    assert stage.describe().assignor_name == "uniform"
    b.join("t", server_assignor="range")
    assert stage.describe().assignor_name == "range"
    settle(stage, a, b)
    epoch = stage.group.group_epoch
    a.send(server_assignor="uniform")
    assert (stage.describe().assignor_name, stage.group.group_epoch) == ("uniform", epoch + 1)
    c.join("t", server_assignor="range")
    assert stage.describe().assignor_name == "range"


def test_an_assignor_that_raises_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule A3.21."""
    stage = Stage(t=2)
    a = stage.member("a")
    a.join("t")

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr("equipoise.coordinator.consumer.assignment.target.compute_target", fails)
    before = stage.loaded().consumer_groups
    assert refused(stage, **JOIN)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.shard.consumer_groups == before
    monkeypatch.undo()
    assert stage.member("m").join("t").error_code == ErrorCode.NONE


def test_a_shard_that_is_not_active_says_so() -> None:
    """Rule A3.10."""
    stage = Stage(t=1)
    stage.shard = stage.loaded()
    assert stage.member("a").join("t").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.shard.activate(stage.now)
    stage.shard.close(stage.now)
    assert stage.member("a").join("t").error_code == ErrorCode.NOT_COORDINATOR


def test_an_empty_classic_group_gives_way_and_keeps_its_offsets() -> None:
    """Rule A3.12: a simple group, made by a commit."""
    stage = Stage(t=1)
    member = stage.member("a")
    assert member.commit(0, epoch=-1, member_id="") == ErrorCode.NONE
    assert list(stage.shard.groups) == ["g"]
    member.join("t")
    assert (list(stage.shard.groups), list(stage.shard.consumer_groups)) == ([], ["g"])
    assert stage.types() == ["1", "2t", "5", "3", "7", "6", "8"]
    assert stage.shard.offsets.get("g", "t", 0) is not None


def test_many_that_are_gone_are_removed_in_portions() -> None:
    """A client may leave thousands of members behind; the heartbeats of others wait for one portion."""
    stage = Stage(t=1)
    for number in range(100):
        stage.member(f"m{number}").join("t")
    now, left = stage.now + 45_000, 100
    while left:
        step = stage.shard.tick(now)
        gone = [event for event in step.events if isinstance(event, MemberLeft)]
        assert 0 < len(gone) <= AT_ONCE
        left -= len(gone)
        assert len(stage.group.members) == left
        deadline = stage.shard.next_deadline()
        assert not left or (deadline is not None and deadline <= now)
