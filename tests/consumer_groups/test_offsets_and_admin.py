"""Rules A17 and A18: offsets with member epochs; describe, list, delete."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.admin import describe_group, list_groups
from equipoise.coordinator.consumer.describe import describe_consumer_group
from equipoise.coordinator.events import CommitRefused
from equipoise.coordinator.offsets.transactional import commit_transactional_offsets
from equipoise.coordinator.reasons import Refusal
from equipoise.coordinator.step import Caller
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsResponse
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.consumer_groups.stage import Member, Stage, settle

OK = ErrorCode.NONE


def two(**config: int) -> tuple[Stage, Member, Member]:
    """Of epoch 3: a had its three partitions at 2, b got its three at 3."""
    stage = Stage(config, t=6)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    a.ack()
    b.join("t")
    settle(stage, a, b)
    assert (a.epoch, b.epoch) == (3, 3)
    return stage, a, b


def test_the_members_own_epoch_may_commit_anything() -> None:
    """Rules A17.3 and A17.4."""
    _stage, a, b = two()
    assert a.commit(*b.partitions) == OK
    assert a.commit(0, epoch=4) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_older_epoch_may_commit_what_the_member_has_had_since() -> None:
    """Rules A17.5 and A17.12 (KIP-1251): the first partition that it may not fails all."""
    _stage, a, b = two()
    assert a.commit(*a.partitions, epoch=2) == OK
    assert a.commit(*a.partitions, *b.partitions, epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert b.commit(*b.partitions, epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert a.commit(*a.partitions, epoch=1) == ErrorCode.STALE_MEMBER_EPOCH


def test_what_is_to_be_given_up_may_be_committed() -> None:
    """Rule A17.5."""
    stage, a, _b = two()
    c = stage.member("c")
    c.join("t")
    a.beat()
    assert a.known.revoking
    assert a.commit(*(number for _, number in a.known.revoking), epoch=3) == OK


def test_who_is_no_member_may_commit_only_to_an_empty_group() -> None:
    """Rules A17.1 and A17.9."""
    stage, a, b = two()
    assert a.commit(0, epoch=-1, member_id="") == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.commit(0, epoch=3, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    refusals = [event.refusal for event in stage.events if isinstance(event, CommitRefused)]
    assert refusals == [Refusal.STANDALONE_IN_LIVE_GROUP, Refusal.UNKNOWN_MEMBER]
    a.leave()
    b.leave()
    assert a.commit(0, epoch=-1, member_id="") == OK


def test_a_version_without_epochs_is_refused() -> None:
    """Rule A17.2."""
    _stage, a, _b = two()
    assert a.commit(0, version=8) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, None),
        ("a", 3, None),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_offsets_are_read_with_the_members_own_epoch(
    member_id: str | None, epoch: int, error: ErrorCode | None
) -> None:
    """Rule A17.8."""
    stage, _, _ = two()
    stage.shard.check_fetch("other", member_id, epoch)
    if error is None:
        stage.shard.check_fetch("g", member_id, epoch)
    else:
        with pytest.raises(KafkaError) as caught:
            stage.shard.check_fetch("g", member_id, epoch)
        assert caught.value.code is error


def delete_offset(stage: Stage, topic: str) -> OffsetDeleteResponse:
    rows = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name=topic, partitions=rows)])
    caller = Caller("delete", 0)
    stage.run(stage.shard.delete_offsets(request, caller, stage.now))
    answer = stage.replies["delete"]  # type: ignore[index]
    assert isinstance(answer, OffsetDeleteResponse)
    return answer


def test_offsets_of_subscribed_topics_stay() -> None:
    """Rule A17.10: by name; the state of the group does not count."""
    stage, a, _b = two()
    stage.set_topics(u=1)
    assert (a.commit(0), a.commit(0, topic="u")) == (OK, OK)
    assert delete_offset(stage, "t").topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offset(stage, "u").topics[0].partitions[0].error_code == OK
    assert stage.shard.offsets.get("g", "u", 0) is None


def test_offsets_expire_by_their_commit_unless_subscribed() -> None:
    """Rule A17.11."""
    stage, a, b = two(offsets_retention_minutes=120)
    stage.set_topics(u=1)
    a.commit(0)
    a.commit(0, topic="u")
    retention = stage.config.offsets_retention_ms
    group = stage.group
    while stage.now < group.target_timestamp + retention + 1_300_000:
        stage.advance(30_000)
        a.beat()
        b.beat()
        if stage.shard.offsets.get("g", "u", 0) is None:
            break
    assert stage.shard.offsets.get("g", "u", 0) is None
    assert stage.shard.offsets.get("g", "t", 0) is not None


def delete_group(stage: Stage) -> int:
    caller = Caller("group", 0)
    stage.run(stage.shard.delete_group("g", caller, stage.now))
    answer = stage.replies["group"]  # type: ignore[index]
    assert isinstance(answer, DeleteGroupsResponse)
    return int(answer.results[0].error_code)


def test_only_an_empty_group_is_deleted() -> None:
    """Rules A17.10 and A20.4."""
    stage, a, b = two()
    a.commit(0)
    assert delete_group(stage) == ErrorCode.NON_EMPTY_GROUP
    a.leave()
    b.leave()
    written = len(stage.log)
    assert delete_group(stage) == OK
    assert (stage.types(written), stage.shard.consumer_groups) == (["1t", "6t", "4t", "3t"], {})
    assert stage.loaded().consumer_groups == {}


def test_describe_shows_what_members_have_and_are_to_have() -> None:
    """Rules A18.1 to A18.3."""
    stage, a, _b = two()
    c = stage.member("c", instance="i")
    c.join("t", rack_id="r")
    a.beat()
    group = stage.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 4, 4)
    by_id = {member.member_id: member for member in group.members}
    shown = by_id["a"].assignment.topic_partitions[0]
    assert (shown.topic_name, len(shown.partitions)) == ("t", 3)
    assert len(by_id["a"].target_assignment.topic_partitions[0].partitions) == 2
    last = by_id["c"]
    assert (last.instance_id, last.rack_id, last.client_host, last.member_type) == ("i", "r", "/h", 1)
    assert (last.subscribed_topic_names, last.subscribed_topic_regex, last.assignment.topic_partitions) == (
        *(["t"], ""),
        [],
    )
    c.leave(-2)
    assert {member.member_epoch for member in stage.describe().members} == {3, -2}
    stage.set_topics(t=0)
    assert all(not member.assignment.topic_partitions for member in stage.describe().members)


def test_who_is_no_consumer_group_is_not_found() -> None:
    """Rules A18.1, A18.4 and A18.6."""
    stage, _a, _b = two()
    assert (
        describe_consumer_group(stage.shard, "").error_code,
        describe_consumer_group(stage.shard, "x").error_message,
    ) == (
        ErrorCode.INVALID_GROUP_ID,
        "Group x not found.",
    )
    for version, error in ((5, OK), (6, ErrorCode.GROUP_ID_NOT_FOUND)):
        found = describe_group(stage.shard, "g", version)
        assert (found.error_code, found.group_state) == (error, "Dead")
    stage.shard.create_group("classic", stage.now)
    other = describe_consumer_group(stage.shard, "classic")
    assert (other.error_code, other.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group classic is not a consumer group.",
    )


def test_groups_are_listed_by_type_and_state() -> None:
    """Rule A18.5."""
    stage, _a, b = two()
    stage.shard.create_group("classic", stage.now)
    rows = {
        row.group_id: (row.group_type, row.protocol_type, row.group_state) for row in list_groups(stage.shard, [], [])
    }
    assert rows == {"g": ("consumer", "consumer", "Stable"), "classic": ("classic", "", "Empty")}
    assert [row.group_id for row in list_groups(stage.shard, [], ["CONSUMER"])] == ["g"]
    assert [row.group_id for row in list_groups(stage.shard, [" stable "], [])] == ["g"]
    b.leave()
    assert [row.group_id for row in list_groups(stage.shard, ["Assigning"], ["consumer"])] == ["g"]


# -- within transactions


def commit_in_transaction(member: Member, *partitions: int, **changed: Any) -> int:
    """The error of the first partition."""
    stage = member.stage
    rows = [TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=1) for one in partitions]
    fields: dict[str, Any] = {"generation_id": member.epoch, "member_id": member.member_id, **changed}
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=rows)],
        **fields,
    )
    ids = {name: topic.topic_id for name, topic in stage.image.topics.items()}
    caller = Caller(-1, 5, "c", "/h")
    stage.run(commit_transactional_offsets(stage.shard, request, caller, stage.now, topic_ids=ids))
    reply = stage.replies[-1]
    assert isinstance(reply, TxnOffsetCommitResponse)
    return reply.topics[0].partitions[0].error_code


def test_a_member_commits_within_a_transaction_by_its_epoch() -> None:
    """Rules T.65 and A17.5: producers know no epochs, an old one is an old generation."""
    _stage, a, b = two()
    assert commit_in_transaction(a, *b.partitions) == OK
    assert commit_in_transaction(a, *a.partitions, generation_id=2) == OK
    assert commit_in_transaction(b, *b.partitions, generation_id=2) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(a, 0, generation_id=4) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(a, 0, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(a, 0, generation_id=-1, member_id="") == OK
