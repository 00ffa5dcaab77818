"""Rules of part 4: offsets, as the group judges them. Before it is asked: test_handlers; expiry: test_4_6."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import CommitRefused
from equipoise.coordinator.reasons import Refusal
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import OffsetCommitKey
from tests.spec.context import (
    SESSION,
    TOPIC,
    Context,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
DAY = 86_400_000
SIMPLE = ("g", "", -1, None)


# -- 4.1 OffsetCommit: the group's validation, in order


def test_4_1_1_the_empty_group_id_is_accepted() -> None:
    ctx = Context()
    assert ctx.commit({0: 7}, ("", "", -1, None)).error is ErrorCode.NONE
    assert ctx.fetch_offset(group="") == 7


@pytest.mark.parametrize(
    ("loading", "error"), [(True, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (False, ErrorCode.NOT_COORDINATOR)]
)
def test_4_1_2_loading_14_and_not_coordinator_16(loading: bool, error: ErrorCode) -> None:
    ctx = Context()
    (ctx.load if loading else ctx.close)()
    assert ctx.commit({0: 1, 1: 2}).errors == [error, error]


def test_4_1_3_group_unknown_and_no_generation_creates_a_simple_group() -> None:
    ctx = Context()
    assert ctx.commit({0: 7}, ("g", "whoever", -1, "whatever")).error is ErrorCode.NONE
    assert (ctx.state, ctx.group().protocol_type, ctx.fetch_offset()) == (EMPTY, None, 7)


@pytest.mark.parametrize("generation", [0, 1, 7])
@pytest.mark.parametrize("version", range(2, 11))
def test_4_1_4_group_unknown_and_a_generation(version: int, generation: int) -> None:
    ctx = Context()
    call = ctx.commit({0: 1}, ("g", "x", generation, None), version=version)
    assert call.error is (ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)
    assert ctx.shard.groups == {}
    assert ctx.last_event(CommitRefused).refusal is Refusal.UNKNOWN_GROUP


@pytest.mark.parametrize("about", [SIMPLE, ("g", "whoever", -1, None), ("g", "", -1, "i"), ("g", "x", -5, "i")])
def test_4_1_6_no_generation_in_an_empty_group_is_accepted_whoever_asks(
    about: tuple[str, str, int, str | None],
) -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert ctx.commit({0: 9}, about).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("row", "about", "error", "refusal"),
    [
        ("iid unknown", ("a", 1, "unheard"), ErrorCode.UNKNOWN_MEMBER_ID, Refusal.UNKNOWN_MEMBER),
        ("iid of another", ("a", 1, "i"), ErrorCode.FENCED_INSTANCE_ID, Refusal.FENCED_INSTANCE),
        ("mid unknown", ("x", 1, None), ErrorCode.UNKNOWN_MEMBER_ID, Refusal.UNKNOWN_MEMBER),
        ("mid unknown, no generation", ("x", -1, None), ErrorCode.UNKNOWN_MEMBER_ID, Refusal.UNKNOWN_MEMBER),
        ("only a generation", ("", 1, None), ErrorCode.UNKNOWN_MEMBER_ID, Refusal.UNKNOWN_MEMBER),
        ("only an instance", ("", -1, "i"), ErrorCode.FENCED_INSTANCE_ID, Refusal.FENCED_INSTANCE),
        ("generation behind", ("a", 0, None), ErrorCode.ILLEGAL_GENERATION, Refusal.OLD_GENERATION),
        ("generation ahead", ("a", 2, None), ErrorCode.ILLEGAL_GENERATION, Refusal.OLD_GENERATION),
        ("member without generation", ("a", -1, None), ErrorCode.ILLEGAL_GENERATION, Refusal.OLD_GENERATION),
        ("nobody", ("", -1, None), ErrorCode.UNKNOWN_MEMBER_ID, Refusal.STANDALONE_IN_LIVE_GROUP),
    ],
)
@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_4_1_7_and_8_membership_then_generation(
    row: str, about: tuple[str, int, str | None], error: ErrorCode, refusal: Refusal, state: State
) -> None:
    """8 is the last row: a standalone consumer beside a live group. In CR these come before 27."""
    ctx = Context()
    a, s = ctx.client("a"), ctx.client("s", instance="i")
    (ctx.completing if state is CR else ctx.stable)(a, s)
    if state is PR:
        ctx.client("n").enter(version=3)
    ctx.advance(1_000)
    member_id, generation_id, instance = about
    call = ctx.commit({0: 1, 3: 2}, ("g", a.member_id if member_id == "a" else member_id, generation_id, instance))
    assert call.errors == [error, error], row
    event = ctx.last_event(CommitRefused)
    assert (event.refusal, event.generation_id, event.group_generation_id) == (refusal, generation_id, 1)
    assert (ctx.fetch_all(), a.deadline) == ({}, SESSION - 1_000)


def test_4_1_8_the_live_group_is_not_disturbed_and_the_same_commit_succeeds_when_it_is_empty() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert ctx.commit({0: 1}).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.state is STABLE
    a.leave()
    assert ctx.commit({0: 1}).error is ErrorCode.NONE
    b = ctx.client("b")
    b.enter()
    ctx.advance(3_000)
    b.sync()
    assert b.commit({0: 2}).error is ErrorCode.NONE  # a member is never blocked by simple commits


def test_4_1_9_completing_is_27() -> None:
    ctx = Context()
    (a,) = ctx.completing("a")
    ctx.advance(1_000)
    assert a.commit().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.deadline == SESSION - 1_000
    assert ctx.last_event(CommitRefused).refusal is Refusal.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("state", [PR, STABLE])
def test_4_1_10_accepted_and_counts_as_a_heartbeat(state: State) -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    if state is PR:
        a.join()
    ctx.advance(5_000)
    assert (b.commit({0: 11}).error, b.deadline, ctx.fetch_offset()) == (ErrorCode.NONE, SESSION, 11)


def test_4_1_metadata_too_large_is_12_for_its_partition_only() -> None:
    ctx = Context(offset_metadata_max_bytes=5)
    rows = [("12345", ErrorCode.NONE), ("123456", ErrorCode.OFFSET_METADATA_TOO_LARGE)]
    for partition, (metadata, error) in enumerate(rows):
        assert ctx.commit({partition: 1}, metadata=metadata).error is error
    assert ctx.fetch_all() == {(TOPIC, 0): 1}


@pytest.mark.parametrize(
    ("metadata", "fits"), [("é" * 4, True), ("é" * 5, False), ("\U0001f600" * 2, True), ("\U0001f600" * 3, False)]
)
def test_4_1_metadata_is_counted_in_utf16_units(metadata: str, fits: bool) -> None:
    ctx = Context(offset_metadata_max_bytes=4)
    call = ctx.commit({0: 1}, metadata=metadata)
    assert call.error is (ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE)


def test_4_1_null_metadata_is_stored_as_empty() -> None:
    ctx = Context()
    ctx.commit({0: 1}, metadata=None)
    assert ctx.fetch().metadata == ""
    assert ctx.records[-1].value.metadata == ""  # type: ignore[union-attr]


@pytest.mark.parametrize("offset", [-1, -5, 2**62])
def test_4_1_the_offset_itself_is_not_checked(offset: int) -> None:
    ctx = Context()
    assert ctx.commit({0: offset}).error is ErrorCode.NONE
    assert ctx.fetch_offset() == offset


def test_4_1_accepted_partitions_are_one_write_and_count_when_it_is_durable() -> None:
    ctx = Context()
    ctx.hold_writes()
    call = ctx.commit({0: 1, 1: 2})
    assert (len(ctx.under_way), len(ctx.under_way[0].records)) == (1, 2)
    assert (call.is_parked, ctx.fetch_all()) == (True, {})
    ctx.durable()
    assert (call.errors, ctx.fetch_all()) == ([ErrorCode.NONE] * 2, {(TOPIC, 0): 1, (TOPIC, 1): 2})


def test_4_1_if_the_write_fails_every_partition_gets_the_error() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.hold_writes()
    call = ctx.commit({0: 5, 1: 6})
    ctx.fail_writes()
    assert call.errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert ctx.fetch_all() == {(TOPIC, 0): 1}


def test_4_1_of_concurrent_commits_the_last_in_the_log_wins() -> None:
    ctx = Context()
    ctx.hold_writes()
    ctx.commit({0: 50})
    ctx.commit({0: 40})
    ctx.durable()
    assert ctx.fetch_offset() == 40
    ctx.restart()
    assert ctx.fetch_offset() == 40


# -- 4.2 record content


def test_4_2_what_a_commit_writes() -> None:
    ctx = Context()
    topic_id = bytes(range(16))
    ctx.commit({3: 42}, metadata="m", leader_epoch=7, topic_id=topic_id)
    ((key, value),) = ctx.records
    assert key == OffsetCommitKey(group="g", topic=TOPIC, partition=3)
    stored: Any = value
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (42, 7, "m")
    assert (stored.commit_timestamp, stored.expire_timestamp, stored.topic_id) == (ctx.now, -1, topic_id)
    assert ctx.log[0][1] is not None
    assert ctx.log[0][1][:2] == b"\x00\x04"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_4_2_an_explicit_retention_is_written_in_v1_and_costs_the_leader_epoch(version: int) -> None:
    ctx = Context()
    ctx.commit({0: 42}, retention_ms=5_000, version=version)
    assert ctx.log[0][1] is not None
    assert ctx.log[0][1][:2] == b"\x00\x01"
    stored: Any = ctx.records[0].value
    assert (stored.expire_timestamp, stored.leader_epoch) == (ctx.now + 5_000, -1)


def test_4_2_without_a_leader_epoch_it_is_minus_1() -> None:
    ctx = Context()
    ctx.commit({0: 42}, version=5, leader_epoch=7)  # v5 cannot say it
    assert ctx.fetch().committed_leader_epoch == -1


# -- 4.3 OffsetFetch


def test_4_3_nothing_committed_is_no_error() -> None:
    ctx = Context()
    row = ctx.fetch()
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code) == (-1, -1, "", 0)
    assert ctx.fetch_all() == {}


def test_4_3_all_lists_only_partitions_that_have_an_offset() -> None:
    ctx = Context()
    ctx.commit({0: 1, 4: 2})
    ctx.commit({1: 3}, topic="u")
    assert ctx.fetch_all() == {(TOPIC, 0): 1, (TOPIC, 4): 2, ("u", 1): 3}


def test_4_3_what_was_committed_comes_back_with_epoch_and_metadata() -> None:
    ctx = Context()
    ctx.commit({0: 42}, metadata="m", leader_epoch=7)
    row = ctx.fetch()
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (42, 7, "m")


def test_4_3_an_offset_of_a_topic_that_was_created_anew_is_none() -> None:
    ctx = Context()
    old, new = b"o" * 16, b"n" * 16
    ctx.commit({0: 42}, topic_id=old)
    assert ctx.fetch_offset(topic_id=old) == 42
    assert ctx.fetch_offset(topic_id=new) == -1
    assert ctx.fetch_offset() == 42  # asked by name
    ctx.commit({0: 43})  # written without id, as before v4 of the record
    assert ctx.fetch_offset(topic_id=new) == 43


# -- 4.4 OffsetDelete


def test_4_4_an_unknown_group_is_69() -> None:
    assert Context().delete_offsets(0).reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("kind", ["simple", "empty consumer", "empty other"])
def test_4_4_a_group_without_members_subscribes_to_nothing(kind: str) -> None:
    ctx = Context()
    if kind != "simple":
        (a,) = ctx.stable(ctx.client("a", protocol_type="consumer" if kind == "empty consumer" else "connect"))
        a.leave()
    ctx.commit({0: 1, 1: 2})
    call = ctx.delete_offsets(0)
    assert call.errors == [ErrorCode.NONE]
    assert ctx.fetch_all() == {(TOPIC, 1): 2}
    ctx.restart()
    assert ctx.fetch_all() == {(TOPIC, 1): 2}


def test_4_4_only_what_exists_gets_a_tombstone() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    call = ctx.delete_offsets(5, 6)
    assert (call.errors, len(ctx.records)) == ([ErrorCode.NONE] * 2, 1)


def test_4_4_a_live_group_of_another_type_is_68() -> None:
    ctx = Context()
    ctx.stable(ctx.client("a", protocol_type="connect"))
    assert ctx.delete_offsets(0).reply.error_code == ErrorCode.NON_EMPTY_GROUP


def test_4_4_per_topic_86_if_subscribed_else_deleted() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", offered=protocols("range", metadata=subscription("u"))))
    a.commit({0: 1})
    a.commit({0: 2}, topic="u")
    a.commit({0: 3}, topic="v")
    codes = {topic: ctx.delete_offsets(0, topic=topic).error for topic in (TOPIC, "u", "v")}
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert codes == {TOPIC: subscribed, "u": subscribed, "v": ErrorCode.NONE}
    assert ctx.fetch_all() == {(TOPIC, 0): 1, ("u", 0): 2}
    b.leave()


def test_4_4_an_unknown_subscription_counts_as_subscribed_no_generation_yet() -> None:
    ctx = Context()
    ctx.client("a").enter()
    assert ctx.state is PR
    assert ctx.delete_offsets(0, topic="v").error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x09"])
def test_4_4_an_unknown_subscription_counts_as_subscribed_metadata_unreadable(metadata: bytes) -> None:
    ctx = Context()
    ctx.stable(ctx.client("a", offered=[("range", metadata)]))
    assert ctx.delete_offsets(0, topic="v").error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_4_4_metadata_is_read_as_v0_whatever_it_claims_to_be() -> None:
    ctx = Context()
    metadata = b"\x00\x07" + subscription("u")[2:-1]  # v7, and its end is missing
    ctx.stable(ctx.client("a", offered=[("range", metadata)]))
    assert ctx.group().subscribed_topics == {"u"}


def test_4_4_if_the_write_fails_the_error_is_at_the_top() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.hold_writes()
    call = ctx.delete_offsets(0)
    assert call.is_parked
    ctx.fail_writes()
    assert call.reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ctx.fetch_offset() == 1


# -- 4.7 simple groups


def test_4_7_a_simple_group_has_no_group_metadata_record_and_can_become_a_normal_one() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    assert [type(record.key) for record in ctx.records] == [OffsetCommitKey]
    (row,) = ctx.list()
    assert (row.protocol_type, row.group_state) == ("", "Empty")
    (a,) = ctx.stable("a")
    assert (ctx.group().protocol_type, a.generation_id, ctx.fetch_offset()) == ("consumer", 1, 1)
