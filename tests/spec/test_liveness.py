"""Deadlines of members, which only our own clients are told."""

from __future__ import annotations

from equipoise.coordinator.liveness import liveness
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsResponse
from equipoise.wire.liveness import (
    AWAITS_JOIN,
    AWAITS_NOTHING,
    AWAITS_SYNC,
    UNKNOWN,
    GroupLiveness,
    LiveDescribeGroupsResponse,
    MemberLiveness,
)
from tests.spec.context import REBALANCE, SESSION, Context


def told(ctx: Context) -> GroupLiveness:
    found = liveness(ctx.shard, "g", ctx.now)
    assert found is not None
    return found


def rows(ctx: Context) -> dict[str, MemberLiveness]:
    return {one.member_id.partition("-")[0]: one for one in told(ctx).members}


def test_a_session_drains_from_one_sign_of_life_to_the_next() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    ctx.advance(4_000)
    a.heartbeat()
    ctx.advance(1_000)
    found = rows(ctx)
    assert (found["a"].last_seen_ms_ago, found["a"].session_ms_left) == (1_000, SESSION - 1_000)
    assert (found["b"].last_seen_ms_ago, found["b"].session_ms_left) == (5_000, SESSION - 5_000)
    assert {one.awaiting for one in found.values()} == {AWAITS_NOTHING}
    assert told(ctx).state_ms_ago == 5_000


def test_a_rebalance_waits_for_those_who_have_not_rejoined() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    a.join()
    ctx.advance(2_000)
    found = rows(ctx)
    assert (found["a"].awaiting, found["a"].session_ms_left) == (AWAITS_NOTHING, UNKNOWN)  # it is parked
    assert (found["b"].awaiting, found["b"].awaited_ms_left) == (AWAITS_JOIN, REBALANCE - 2_000)
    assert found["b"].session_ms_left == SESSION - 2_000


def test_a_generation_waits_for_those_who_have_not_synced() -> None:
    ctx = Context()
    _, b = ctx.completing("a", "b")
    b.sync()
    found = rows(ctx)
    assert (found["a"].awaiting, found["a"].awaited_ms_left) == (AWAITS_SYNC, REBALANCE)
    assert (found["b"].awaiting, found["b"].session_ms_left) == (AWAITS_NOTHING, UNKNOWN)


def test_an_unknown_group_has_none() -> None:
    assert liveness(Context().shard, "none", 0) is None


def test_other_clients_skip_it_and_without_it_the_answer_is_kafkas() -> None:
    one = GroupLiveness(group_id="g", members=[MemberLiveness(member_id="a", session_ms_left=7)])
    with_it = LiveDescribeGroupsResponse(groups=[], liveness=[one])
    assert DescribeGroupsResponse.decode(with_it.encode(6), 6) == DescribeGroupsResponse(groups=[])
    assert LiveDescribeGroupsResponse.decode(with_it.encode(6), 6).liveness == [one]
    without = DescribeGroupsResponse(groups=[])
    for version in range(7):
        assert LiveDescribeGroupsResponse(groups=[]).encode(version) == without.encode(version)
    assert with_it.encode(4) == without.encode(4)
