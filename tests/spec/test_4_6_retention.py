"""Rule 4.6: when offsets and groups are forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import GroupDeleted
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import GroupMetadataKey, OffsetCommitKey, encode_key
from tests.spec.context import (
    RETENTION,
    SWEEP,
    TOPIC,
    Client,
    Context,
)

EMPTY, PR, CR, STABLE, DEAD = State
DAY = 86_400_000
SIMPLE = ("g", "", -1, None)


def idle(ctx: Context, ms: int, *alive: Client) -> None:
    """Time passes while the members keep their sessions."""
    end = ctx.now + ms
    while ctx.now < end:
        ctx.advance(min(end - ctx.now, 1_000_000))
        for client in alive:
            assert client.heartbeat().error is ErrorCode.NONE


def keeper(ctx: Context, **settings: Any) -> Client:
    (client,) = ctx.stable(ctx.client("a", session=1_800_000, **settings))
    return client


def to_the_next_sweep(ctx: Context) -> None:
    deadline = ctx.shard.timers.deadline(TimerKey(TimerKind.EXPIRY))
    assert deadline is not None
    ctx.advance(deadline - ctx.now)


def test_4_6_the_sweep_runs_every_check_interval() -> None:
    ctx = Context()
    for _ in range(3):
        assert ctx.shard.timers.deadline(TimerKey(TimerKind.EXPIRY)) == ctx.now + SWEEP
        ctx.advance(SWEEP)


def test_4_6_empty_counts_from_when_it_became_empty_not_from_the_commits() -> None:
    ctx = Context()
    a = keeper(ctx)
    a.commit({0: 1})
    idle(ctx, 10 * DAY, a)
    a.leave()
    ctx.advance(RETENTION - SWEEP)
    assert ctx.fetch_offset() == 1
    to_the_next_sweep(ctx)
    to_the_next_sweep(ctx)
    assert ctx.fetch_offset() == -1
    assert "g" not in ctx.shard.groups


def test_4_6_the_boundary_is_inclusive() -> None:
    ctx = Context(offsets_retention_minutes=10)  # the sweep comes exactly then
    ctx.commit({0: 1})
    ctx.advance(599_999)
    assert ctx.fetch_offset() == 1
    ctx.advance(1)
    assert ctx.fetch_offset() == -1


def test_4_6_empty_without_a_timestamp_counts_from_the_commit() -> None:
    """As groups do whose record is older than v2."""
    ctx = Context()
    a = keeper(ctx)
    a.leave()
    ctx.commit({0: 1})
    ctx.advance(2 * DAY)
    ctx.commit({1: 2})
    ctx.group().state_since = None
    ctx.advance(RETENTION - 2 * DAY + SWEEP)
    assert ctx.fetch_all() == {(TOPIC, 1): 2}


def test_4_6_stable_consumer_group_expires_what_it_does_not_subscribe_to_counted_from_the_commit() -> None:
    ctx = Context()
    a = keeper(ctx)
    a.commit({0: 1})
    a.commit({0: 2, 1: 3}, topic="u")
    idle(ctx, DAY, a)
    a.commit({1: 4}, topic="u")
    idle(ctx, RETENTION - DAY + SWEEP, a)
    assert ctx.fetch_all() == {(TOPIC, 0): 1, ("u", 1): 4}
    assert ctx.state is STABLE


@pytest.mark.parametrize("case", ["PR", "CR", "other type", "unknown subscription"])
def test_4_6_other_cases_with_members_never_expire(case: str) -> None:
    ctx = Context()
    settings: dict[str, Any] = {"session": 1_800_000, "rebalance": 2**31 - 1}
    if case == "other type":
        settings["protocol_type"] = "connect"
    if case == "unknown subscription":
        settings["offered"] = [("range", b"?")]
    a, b = ctx.stable(ctx.client("a", **settings), ctx.client("b", **settings))
    a.commit({0: 1}, topic="u")
    alive = [a, b]
    if case in ("PR", "CR"):
        a.join()
        alive = [b]
    if case == "CR":
        b.join()
        alive = [a, b]
    end = ctx.now + RETENTION + SWEEP
    while ctx.now < end:
        ctx.advance(1_000_000)
        for client in alive:
            client.heartbeat()
    assert ctx.state is {"PR": PR, "CR": CR}.get(case, STABLE)
    assert ctx.fetch_offset(topic="u") == 1


def test_4_6_simple_groups_count_from_each_commit() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.advance(DAY)
    ctx.commit({1: 2})
    ctx.advance(RETENTION - DAY + SWEEP)
    assert ctx.fetch_all() == {(TOPIC, 1): 2}
    ctx.advance(DAY)
    assert "g" not in ctx.shard.groups


def test_4_6_a_simple_group_counts_from_the_commit_also_while_somebody_is_about_to_join() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.advance(RETENTION - SWEEP)
    ctx.commit({0: 2})
    p = ctx.client("p", session=1_800_000)
    p.join()
    ctx.advance(2 * SWEEP)
    assert ctx.group().pending_members == {p.member_id}
    assert ctx.fetch_offset() == 2


@pytest.mark.parametrize("retention", [1_000, 30 * DAY])
def test_4_6_an_explicit_expiry_overrides_the_retention(retention: int) -> None:
    ctx = Context()
    ctx.commit({0: 1}, retention_ms=retention, version=4)
    ctx.advance(min(retention, RETENTION) + SWEEP)
    assert ctx.fetch_offset() == (-1 if retention == 1_000 else 1)
    ctx.advance(retention)
    assert ctx.fetch_offset() == -1


def test_4_6_an_explicit_expiry_counts_only_where_offsets_expire_at_all() -> None:
    ctx = Context()
    a = keeper(ctx)
    a.commit({0: 1}, retention_ms=1_000, version=4)
    idle(ctx, 2 * SWEEP, a)
    assert ctx.fetch_offset() == 1  # subscribed


def test_4_6_each_expired_offset_gets_a_tombstone_and_the_group_with_the_last() -> None:
    ctx = Context()
    ctx.commit({0: 1, 1: 2})
    ctx.advance(RETENTION + SWEEP)
    tombstones = [record for record in ctx.records if record.value is None]
    assert [type(record.key) for record in tombstones] == [OffsetCommitKey, OffsetCommitKey, GroupMetadataKey]
    assert ctx.last_event(GroupDeleted).expired
    ctx.restart()
    assert ctx.shard.groups == {}


def test_4_6_an_empty_group_without_offsets_goes_at_the_next_sweep() -> None:
    ctx = Context()
    a = keeper(ctx)
    a.leave()
    ctx.advance(SWEEP)
    assert "g" not in ctx.shard.groups
    assert ctx.log[-1] == (encode_key(GroupMetadataKey(group="g")), None)


def test_4_6_a_reserved_id_does_not_keep_an_empty_group() -> None:
    ctx = Context()
    ctx.advance(SWEEP - 1)
    p = ctx.client("p")
    p.join()
    ctx.advance(1)
    assert ctx.shard.groups == {}
    assert p.join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_4_6_an_expired_group_whose_tombstone_cannot_be_written_is_tried_again() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.hold_writes()
    ctx.advance(RETENTION + SWEEP)
    ctx.fail_writes()
    assert (ctx.state, ctx.fetch_offset()) == (EMPTY, 1)
    ctx.advance(SWEEP)
    ctx.durable()
    assert (ctx.shard.groups, ctx.fetch_offset()) == ({}, -1)


def test_4_6_an_offset_that_is_being_committed_does_not_expire() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.advance(RETENTION - 1 - SWEEP)
    while ctx.shard.timers.deadline(TimerKey(TimerKind.EXPIRY)) != ctx.now + SWEEP:
        ctx.advance(1)
    ctx.advance(SWEEP - 1)
    ctx.hold_writes()
    call = ctx.commit({0: 2})
    ctx.advance(1)
    ctx.durable()
    assert (call.error, ctx.fetch_offset()) == (ErrorCode.NONE, 2)
    ctx.restart()
    assert ctx.fetch_offset() == 2


@pytest.mark.parametrize("kind", ["simple", "live"])
def test_4_6_the_offsets_of_a_deleted_topic_go_at_once_in_all_groups(kind: str) -> None:
    ctx = Context()
    deleted, other = b"d" * 16, b"o" * 16
    if kind == "live":
        (a,) = ctx.stable("a")
        a.commit({0: 1}, topic_id=deleted)
    else:
        ctx.commit({0: 1}, topic_id=deleted)
    ctx.commit({0: 2}, ("h", "", -1, None), topic_id=deleted)
    ctx.commit({1: 3}, ("h", "", -1, None))  # legacy: no id
    ctx.commit({2: 4}, ("h", "", -1, None), topic_id=other)
    ctx.commit({0: 5}, ("h", "", -1, None), topic="u", topic_id=other)
    ctx.delete_topic(TOPIC, deleted)
    assert ctx.fetch_all() == {}
    assert ctx.fetch_all("h") == {(TOPIC, 2): 4, ("u", 0): 5}


def test_4_6_delete_groups_forgets_the_offsets_at_once() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.delete_group()
    assert ctx.fetch_all() == {}


def test_4_6_retention_is_counted_in_wall_time_and_the_sweep_in_time_that_never_jumps() -> None:
    """Commits are stamped for a later start of the broker; when the sweep comes is for this one alone."""
    ctx = Context()
    ctx.commit({0: 1})
    ctx.wall_ahead_ms = RETENTION - SWEEP
    assert ctx.shard.next_deadline() == ctx.now + SWEEP
    ctx.advance(SWEEP - 1)
    assert ctx.fetch_offset() == 1
    ctx.advance(1)
    assert ctx.fetch_offset() == -1


def test_4_6_a_clock_set_back_keeps_offsets_for_longer() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.wall_ahead_ms = -DAY
    ctx.advance(RETENTION)
    assert ctx.fetch_offset() == 1
    ctx.advance(DAY)
    assert ctx.fetch_offset() == -1


def test_4_6_a_group_that_becomes_empty_is_stamped_with_the_wall_time() -> None:
    ctx = Context()
    a = keeper(ctx)
    a.commit({0: 1})
    ctx.wall_ahead_ms = DAY
    a.leave()
    assert ctx.group().state_since == ctx.now + DAY
    ctx.restart()
    assert ctx.group().state_since == ctx.now + DAY
