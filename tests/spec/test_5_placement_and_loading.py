"""Rules of part 5: placement, load and unload, and the answers meanwhile. FindCoordinator is in test_handlers."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from equipoise.coordinator import placement
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.placement import java_hash, partition_for
from equipoise.coordinator.shard_state import Status
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordType,
    decode_record,
    encode_key,
)
from equipoise.wire.schema import Message
from tests.spec.context import (
    REBALANCE,
    SESSION,
    SWEEP,
    TOPIC,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State


# -- 5.1 mapping


@pytest.mark.parametrize(
    ("group_id", "value", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("test", 3556498, 48),
        ("my-group", -1906497762, 12),
        ("group-0", 293427298, 48),
        ("console-consumer-12345", 158455506, 6),
        ("polygenelubricants", -2147483648, 0),  # the smallest number has no absolute value
        ("a\U0001f600b", 57849694, 44),  # UTF-16 units
    ],
)
def test_5_1_the_mapping_of_group_ids(group_id: str, value: int, partition: int) -> None:
    assert java_hash(group_id) == value
    assert partition_for(group_id, 50) == partition


def test_long_names_are_not_kept() -> None:
    """A client may ask for any number of groups, and a name may have 32 KB."""
    placement._kept.cache_clear()
    long = "g" * 257
    assert partition_for(long, 50) == abs(java_hash(long)) % 50
    assert partition_for(long[1:], 50) == abs(java_hash(long[1:])) % 50
    assert placement._kept.cache_info().currsize == 1


# -- 5.3 load and unload


def test_5_3_a_new_shard_is_loading_then_active_then_closed() -> None:
    ctx = Context()
    ctx.load()
    assert ctx.shard.status is Status.LOADING
    ctx.activate()
    assert ctx.shard.status is Status.ACTIVE
    ctx.close()
    assert ctx.shard.status is Status.CLOSED


def test_5_3_after_the_load_every_member_has_its_full_session() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", session=20_000))
    ctx.advance(9_000)
    ctx.restart()
    assert (a.deadline, b.deadline) == (SESSION, 20_000)
    ctx.advance(SESSION)
    assert list(ctx.group().members) == [b.member_id]


def test_5_3_generation_members_and_assignments_are_as_before_and_nothing_is_rebalanced() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", instance="i"))
    ctx.restart()
    assert [client.heartbeat().error for client in (a, b)] == [ErrorCode.NONE] * 2
    assert partitions_in(b.sync().reply.assignment) == [1]
    assert a.commit({0: 5}).error is ErrorCode.NONE
    group = ctx.group()
    assert (group.generation_id, group.leader, group.static_members) == (1, a.member_id, {"i": b.member_id})
    assert (group.protocol_type, group.protocol_name, group.subscribed_topics) == ("consumer", "range", {TOPIC})
    assert b.restart().reply.generation_id == 1


def test_5_3_the_sweep_is_armed_after_the_load() -> None:
    ctx = Context()
    ctx.load()
    assert ctx.shard.next_deadline() is None
    ctx.activate()
    assert ctx.shard.next_deadline() == ctx.now + SWEEP


def test_5_3_groups_above_the_size_limit_are_rebalanced_others_not() -> None:
    ctx = Context()
    ctx.stable("a", "b")
    ctx.config = Context(group_max_size=2).config
    ctx.restart()
    assert ctx.state is STABLE
    ctx.config = Context(group_max_size=1).config
    ctx.restart()
    assert ctx.state is PR


def test_5_3_an_unload_answers_whoever_is_parked_with_16_and_groups_are_dead() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    join = a.join()
    c = ctx.client("c", group="h")
    c.enter()
    ctx.advance(2_999)
    b.heartbeat()
    ctx.advance(1)
    d = ctx.client("d", group="h", version=3)
    late = d.enter()
    group = ctx.group()
    ctx.close()
    assert (join.error, join.reply.member_id) == (ErrorCode.NOT_COORDINATOR, a.member_id)
    assert late.error is ErrorCode.NOT_COORDINATOR
    assert group.state is DEAD


def test_5_3_an_unload_with_writes_under_way_answers_each_call_once() -> None:
    """The log fails them with what is 16 to a client; whoever was answered already is not answered again."""
    ctx = Context()
    s, b = ctx.stable(ctx.client("s", instance="i"), "b")
    ctx.commit({0: 1}, ("h", "", -1, None))
    ctx.hold_writes()
    restart = s.restart()
    commit = b.commit({0: 5})
    deleted = ctx.delete_group("h")
    ctx.close()
    ctx.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [call.error for call in (restart, commit, deleted)] == [ErrorCode.NOT_COORDINATOR] * 3
    assert ctx.shard.groups == {}


def test_5_3_an_unload_in_completing_with_the_assignment_under_way() -> None:
    for fails in (False, True):
        ctx = Context()
        a, b = ctx.completing("a", "b")
        ctx.hold_writes()
        calls = [b.sync(), a.sync({a: assignment(0)})]
        ctx.close()
        assert [call.error for call in calls] == [ErrorCode.NOT_COORDINATOR] * 2
        if fails:
            ctx.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            ctx.durable()


def test_5_3_a_commit_that_became_durable_just_before_the_unload_is_there_after_the_load() -> None:
    ctx = Context()
    ctx.hold_writes()
    call = ctx.commit({0: 5})
    ctx.close()
    ctx.durable()
    assert (call.error, ctx.shard.groups) == (ErrorCode.NONE, {})
    ctx.restart()
    assert ctx.fetch_offset() == 5


def test_5_3_an_unload_and_its_repetition_and_late_ticks_do_no_harm() -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.close()
    ctx.close()
    assert not ctx.shard.tick(ctx.now + 10**9).replies


# -- 5.3 replay rules


def replay(ctx: Context, *rows: tuple[Message, Message | None, int]) -> None:
    """Keys and values as another broker has written them, with the values' versions."""
    for key, value, version in rows:
        encoded = None if value is None else struct.pack(">h", version) + value.encode(version)
        ctx.log.append((encode_key(key), encoded))
    ctx.restart()


def member_row(member_id: str, **values: Any) -> MemberMetadata:
    fields: dict[str, Any] = {
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 50_000,
        "session_timeout": 8_000,
        "subscription": subscription(),
        "assignment": assignment(3),
    }
    return MemberMetadata(member_id=member_id, **fields | values)


def group_row(*members: MemberMetadata, since: int = 77) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader=members[0].member_id if members else None,
        current_state_timestamp=since,
        members=list(members),
    )


KEY = GroupMetadataKey(group="g")


@pytest.mark.parametrize("version", range(5))
def test_5_3_group_metadata_of_every_version(version: int) -> None:
    ctx = Context()
    replay(ctx, (KEY, group_row(member_row("m", group_instance_id="i"), member_row("n")), version))
    group = ctx.group()
    assert (group.state, group.generation_id, group.leader, list(group.members)) == (STABLE, 5, "m", ["m", "n"])
    member = group.members["m"]
    assert (member.session_timeout_ms, member.client_id, member.client_host) == (8_000, "c", "/h")
    assert member.rebalance_timeout_ms == (8_000 if version == 0 else 50_000)  # -1: the session timeout
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert group.state_since == (77 if version >= 2 else None)
    assert (member.protocols, member.assignment) == ([("range", subscription())], assignment(3))
    assert ctx.heartbeat(("g", "m", 5, None)).error is ErrorCode.NONE


def test_5_3_group_metadata_without_members_is_empty() -> None:
    ctx = Context()
    replay(ctx, (KEY, group_row(), 3))
    assert (ctx.state, ctx.group().generation_id, ctx.group().state_since) == (EMPTY, 5, 77)


@pytest.mark.parametrize("version", range(5))
def test_5_3_offsets_of_every_version(version: int) -> None:
    ctx = Context()
    value = OffsetCommitValue(
        offset=9, leader_epoch=4, metadata="m", commit_timestamp=55, expire_timestamp=66, topic_id=b"i" * 16
    )
    replay(ctx, (OffsetCommitKey(group="g", topic=TOPIC, partition=1), value, version))
    found = ctx.shard.offsets.get("g", TOPIC, 1)
    assert found is not None
    assert (found.offset, found.metadata, found.commit_timestamp) == (9, "m", 55)
    assert found.leader_epoch == (4 if version >= 3 else -1)
    assert found.expire_timestamp == (66 if version == 1 else -1)
    assert found.topic_id == (b"i" * 16 if version == 4 else bytes(16))
    assert ctx.state is EMPTY


def test_5_3_offsets_under_the_legacy_key() -> None:
    ctx = Context()
    key = struct.pack(">h", 0) + OffsetCommitKey(group="g", topic=TOPIC, partition=1).encode(0)
    value = struct.pack(">h", 0) + OffsetCommitValue(offset=9, metadata="", commit_timestamp=55).encode(0)
    ctx.log.append((key, value))
    ctx.restart()
    assert ctx.fetch_offset(1) == 9


def test_5_3_a_null_value_is_a_tombstone_and_the_last_record_counts() -> None:
    ctx = Context()
    offset = OffsetCommitKey(group="g", topic=TOPIC, partition=1)
    first = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    second = OffsetCommitValue(offset=2, metadata="", commit_timestamp=2)
    replay(ctx, (offset, first, 3), (offset, second, 3), (KEY, group_row(member_row("m")), 3), (KEY, group_row(), 3))
    assert (ctx.state, ctx.fetch_offset(1)) == (EMPTY, 2)
    replay(ctx, (offset, None, 0), (KEY, None, 0))
    assert (ctx.shard.groups, ctx.fetch_offset(1)) == ({}, -1)


def test_5_3_an_unknown_type_of_key_is_to_be_skipped() -> None:
    assert decode_record(b"\x00\x63rest", b"whatever") == UnknownRecordType(99)


def test_5_3_records_of_other_kinds_of_groups_are_passed_over() -> None:
    ctx = Context()
    ctx.load()
    record = decode_record(b"\x00\x03" + b"\x00\x01g", None)
    assert isinstance(record, CoordinatorRecord)
    ctx.shard.apply(record, ctx.now)
    assert ctx.shard.groups == {}


@pytest.mark.parametrize("value", [b"\x00\x09", b"\x00\x03\x00", b"\x00"])
def test_5_3_an_unknown_version_or_a_malformed_value_fails_the_load(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_record(encode_key(KEY), value)


def test_5_3_only_the_selected_protocol_survives_so_a_follower_that_offers_several_rebalances() -> None:
    ctx = Context()
    both = protocols("range", "sticky")
    _, b = ctx.stable(ctx.client("a", offered=both), ctx.client("b", offered=both))
    ctx.restart()
    assert b.member.protocols == protocols("range")
    assert b.join(offered=protocols("range")).error is ErrorCode.NONE
    assert b.join().is_parked


def test_5_3_pending_members_parked_requests_and_the_initial_delay_are_lost() -> None:
    ctx = Context()
    a = ctx.client("a")
    parked = a.enter()
    ctx.client("b").join()
    ctx.restart()
    assert (ctx.state, ctx.group().pending_members, ctx.group().members) == (EMPTY, set(), {})
    assert parked.is_parked  # nobody is left to answer it
    assert a.join().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("durable", [False, True])
def test_5_3_in_completing_a_crash_falls_back_to_the_last_record(durable: bool) -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    b.join()
    ctx.hold_writes()
    a.sync({a: assignment(7)})
    if durable:
        ctx.durable()
    ctx.restart()
    assert (ctx.state, ctx.group().generation_id) == (STABLE, 2 if durable else 1)
    assert a.heartbeat().error is (ErrorCode.NONE if durable else ErrorCode.ILLEGAL_GENERATION)


# -- 5.4 answers while loading and elsewhere: those of the core. The others, and the wire, are in test_handlers.

ABOUT = ("g", "m", 1, None)


@pytest.mark.parametrize(
    ("name", "loading", "elsewhere"),
    [
        ("JoinGroup", 14, 16),
        ("SyncGroup", 27, 16),  # as rule 5.4 says
        ("Heartbeat", 0, 16),
        ("LeaveGroup", 14, 16),
        ("OffsetCommit", 14, 16),
    ],
)
def test_5_4_answers_while_loading_and_elsewhere(name: str, loading: int, elsewhere: int) -> None:
    ctx = Context()
    requests = {
        "JoinGroup": lambda: ctx.join(),
        "SyncGroup": lambda: ctx.sync(ABOUT, {}),
        "Heartbeat": lambda: ctx.heartbeat(ABOUT),
        "LeaveGroup": lambda: ctx.leave(("m", None)),
        "OffsetCommit": lambda: ctx.commit({0: 1}, ABOUT),
    }
    ctx.load()
    assert requests[name]().error == loading
    ctx.close()
    assert requests[name]().error == elsewhere


def test_5_4_a_member_that_heartbeats_through_a_failover_goes_on() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.close()
    assert a.heartbeat().error is ErrorCode.NOT_COORDINATOR
    ctx.load()
    assert a.heartbeat().error is ErrorCode.NONE
    assert a.join().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ctx.activate()
    assert a.heartbeat().error is ErrorCode.NONE
    ctx.advance(REBALANCE)
    assert ctx.state is EMPTY
