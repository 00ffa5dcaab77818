"""Rules A.1 to A.30: the pitfalls, each by its number. Longer versions of most are with their rules."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.placement import java_hash, partition_for
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, eventually
from tests.broker.rawclient import RawClient
from tests.spec import requests
from tests.spec.context import (
    REBALANCE,
    RETENTION,
    SESSION,
    SWEEP,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))


def test_a01_a_join_of_the_leader_in_stable_always_rebalances() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    assert a.join().is_parked
    assert ctx.state is PR


@pytest.mark.parametrize("state", [CR, STABLE])
def test_a02_a_follower_that_rejoins_with_identical_bytes_does_not_rebalance(state: State) -> None:
    ctx = Context()
    _, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    assert b.join().reply.generation_id == 1
    assert ctx.state is state
    assert b.join(offered=[("range", subscription() + b"\x00")]).is_parked


def test_a03_heartbeat_is_0_in_completing_27_in_preparing_0_while_loading() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    assert b.heartbeat().error is ErrorCode.NONE
    a.sync({b: assignment(0)})
    a.join()
    assert b.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    ctx.load()
    assert b.heartbeat().error is ErrorCode.NONE


def test_a04_the_old_generation_commits_during_preparing_and_gets_27_in_completing() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    assert b.commit({0: 5}).error is ErrorCode.NONE
    b.join()
    assert b.commit({0: 6}).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.commit({0: 6}, generation_id=1).error is ErrorCode.ILLEGAL_GENERATION
    assert ctx.fetch_offset() == 5


def test_a05_commits_without_generation_only_while_the_group_is_empty() -> None:
    ctx = Context()
    assert ctx.commit({0: 1}).error is ErrorCode.NONE
    (a,) = ctx.stable("a")
    assert ctx.commit({0: 2, 1: 3}).errors == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    a.leave()
    assert ctx.commit({0: 4}).error is ErrorCode.NONE


def test_a06_new_members_have_five_minutes_and_members_that_wait_do_not_expire() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    c = ctx.client("c")
    c.enter()
    assert c.deadline == NEW_MEMBER_JOIN_TIMEOUT_MS
    call = a.join()
    for _ in range(6):
        b.heartbeat()
        ctx.advance(5_000)
    assert call.is_parked
    b.join()
    assert [one.deadline for one in (a, b, c)] == [SESSION] * 3


def test_a07_the_initial_delay_is_extended_by_new_members_only_and_bounded_by_the_first_ones_timeout() -> None:
    ctx = Context()
    first = ctx.client("a")
    call = first.join(version=3, rebalance=10_000)
    for _ in range(3):
        ctx.advance(2_999)
        ctx.client("n").join(version=3)
        assert call.is_parked
    ctx.advance(1_002)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_a08_static_absentees_survive_the_join_timeout_but_not_the_sync_timeout_or_their_session() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i", session=100_000))
    call = a.join()
    ctx.advance(REBALANCE)
    assert len(call.reply.members) == 2
    a.sync()
    for _ in range(11):
        ctx.advance(5_000)
        a.heartbeat()
        assert s.member.is_static
    ctx.advance(5_000)
    assert "i" not in ctx.group().static_members


def test_a09_with_only_absent_static_members_the_join_timer_is_armed_again_and_again() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", ctx.client("s", instance="i", session=200_000))
    a.leave()
    ctx.advance(3 * REBALANCE)
    assert (ctx.state, ctx.group().generation_id) == (PR, 1)
    ctx.advance(20_000)
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)


def test_a10_the_generation_grows_also_when_the_group_becomes_empty() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert ctx.group().generation_id == 2


@pytest.mark.parametrize("how", ["session timeout", "LeaveGroup"])
def test_a11_pending_ids_block_early_completion(how: str) -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    p = ctx.client("p")
    p.join()
    call = a.join()
    assert call.is_parked
    if how == "LeaveGroup":
        p.leave()
    else:
        ctx.advance(SESSION)
    assert call.reply.generation_id == 2


def test_a12_the_size_check_precedes_the_member_check_and_counts_parked_joins_in_preparing() -> None:
    ctx = Context(group_max_size=2)
    a, b = ctx.stable("a", "b")
    assert ctx.join("stranger").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    a.join()
    assert ctx.join("stranger").error is ErrorCode.UNKNOWN_MEMBER_ID  # one parked, so there is room
    c = ctx.client("c")
    c.enter()
    assert b.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a13_a_static_replacement_in_stable_persists_before_it_answers_and_fences_what_is_parked() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    assert (call.is_parked, len(ctx.under_way)) == (True, 1)
    ctx.durable()
    assert not call.is_parked
    a.join()
    parked = s.join()
    assert parked.error is ErrorCode.NONE  # it was the last one missing
    sync = s.sync()
    s.restart()
    assert sync.error is ErrorCode.FENCED_INSTANCE_ID


def test_a14_a_static_leader_before_v9_is_told_the_old_leader_id() -> None:
    ctx = Context()
    (s,) = ctx.stable(ctx.client("s", instance="i"))
    old = s.member_id
    assert s.restart(version=8).reply.leader == old
    assert ctx.group().leader == s.member_id != old


def test_a15_the_leaders_sync_fills_up_waits_for_the_log_and_looks_again() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.hold_writes()
    follower, leader = b.sync(), a.sync({a: assignment(0)})
    assert follower.is_parked
    ctx.durable()
    assert (follower.reply.assignment, partitions_in(leader.reply.assignment)) == (b"", [0])
    a.join()
    b.join()
    a.sync({a: assignment(1)})
    ctx.client("c").enter(version=3)  # a rebalance begins before the record is durable
    ctx.durable()
    assert (ctx.state, a.member.assignment) == (PR, b"")


def test_a16_sync_v5_without_protocol_type_or_name_is_23_before_anything_else(client: RawClient) -> None:
    reply = client.call(requests.sync(group="", protocol_type=None, protocol_name=None), 5)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a17_leave_before_v3_has_its_error_at_the_top_later_per_member_also_for_an_unknown_group() -> None:
    ctx = Context()
    assert ctx.leave(("x", None), version=2).reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    call = ctx.leave(("x", None), version=3)
    assert (call.reply.error_code, call.member_errors) == (ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID])


def test_a18_a_commit_with_no_valid_partitions_is_answered_without_touching_the_group(client: RawClient) -> None:
    reply = client.call(requests.commit({"absent": [0]}, generation_id=7), 9)
    assert requests.errors_of(reply.topics) == {("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert client.call(requests.list_groups()).groups == []


def test_a19_metadata_is_limited_in_utf16_units_and_null_is_stored_as_empty() -> None:
    ctx = Context(offset_metadata_max_bytes=2)
    assert ctx.commit({0: 1}, metadata="\U0001f600").error is ErrorCode.NONE
    assert ctx.commit({0: 1}, metadata="\U0001f600x").error is ErrorCode.OFFSET_METADATA_TOO_LARGE
    ctx.commit({0: 1}, metadata=None)
    assert ctx.fetch().metadata == ""


def test_a20_offset_fetch_of_what_is_unknown_is_no_error() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    for row in (ctx.fetch(5), ctx.fetch(topic="u"), ctx.fetch(group="unheard")):
        assert (row.committed_offset, row.error_code) == (-1, ErrorCode.NONE)


def test_a21_expiry_of_an_empty_group_counts_from_when_it_became_empty_which_is_persisted() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.commit({0: 5})
    ctx.advance(5_000)
    a.leave()
    became_empty = ctx.now
    ctx.advance(RETENTION // 2)
    ctx.restart()
    assert ctx.group().state_since == became_empty
    ctx.advance(RETENTION - RETENTION // 2 - 1)
    assert ctx.fetch_offset() == 5
    ctx.advance(SWEEP)
    assert ctx.fetch_offset() == -1


def test_a22_an_empty_group_without_offsets_goes_at_the_next_sweep() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.advance(SWEEP)
    assert ctx.shard.groups == {}


def test_a23_after_a_failover_nothing_is_lost_and_nothing_rebalances_until_someone_differs() -> None:
    ctx = Context()
    both = protocols("range", "sticky")
    a, b = ctx.stable(ctx.client("a", offered=both), ctx.client("b", offered=both))
    ctx.advance(9_000)
    ctx.restart()
    ctx.advance(SESSION - 1)
    assert [one.heartbeat().error for one in (a, b)] == [ErrorCode.NONE] * 2
    assert partitions_in(b.sync().reply.assignment) == [1]
    assert b.join().is_parked  # it offers two protocols, and one was stored


def test_a24_the_hash_goes_over_utf16_units_and_the_smallest_number_maps_to_0() -> None:
    assert java_hash("a\U0001f600b") == 57849694
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a25_find_coordinator_says_none_on_success_and_names_no_node_otherwise(client: RawClient, version: int) -> None:
    assert client.call(requests.find(version, "g"), version).error_message == "NONE"
    reply = client.call(requests.find(version, "g", key_type=9), version)
    assert (reply.node_id, reply.host, reply.port) == (-1, "", -1)


def test_a26_replacement_leaders_and_ties_are_chosen_in_an_order_that_does_not_change() -> None:
    for _ in range(2):
        ctx = Context()
        offers = [protocols("sticky", "range"), protocols("range", "sticky")]
        clients = ctx.stable(*(ctx.client(name, offered=offer) for name, offer in zip("ab", offers, strict=True)))
        assert ctx.group().protocol_name == "sticky"  # as on Kafka
        clients[0].leave()
        assert ctx.group().leader == clients[1].member_id


def test_a27_parked_requests_are_answered_once_and_the_newest_wins() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    joins = [a.join() for _ in range(3)]
    b.join()
    codes = [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]
    assert [call.error for call in joins] == codes
    syncs = [b.sync() for _ in range(3)]
    a.sync({b: assignment(3)})
    assert [call.error for call in syncs] == codes
    assert partitions_in(syncs[-1].reply.assignment) == [3]


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a28_no_protocol_name_is_null_from_v7_and_empty_before(version: int, name: str | None) -> None:
    assert Context().join("stranger", version=version).reply.protocol_name == name


def test_a29_the_client_host_has_a_leading_slash(broker: Broker, client: RawClient, connect: Connect) -> None:
    client.send(requests.join(), 3)
    other = connect(broker)
    (member,) = eventually(lambda: other.call(requests.describe()).groups[0].members, "the member has joined")
    assert member.client_host == "/127.0.0.1"


def test_a30_where_the_coordinator_is_not_it_is_16_and_15_is_for_writes_that_time_out() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.hold_writes()
    call = a.commit()
    ctx.fail_writes(ErrorCode.REQUEST_TIMED_OUT)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ctx.close()
    calls = [a.join(), a.sync(), a.heartbeat(), a.leave(), a.commit()]
    assert [one.error for one in calls] == [ErrorCode.NOT_COORDINATOR] * 5
