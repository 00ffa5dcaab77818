"""Rule 7.9 in `consumer` groups: a member that lost its connection and does not come back goes, of either protocol."""

from __future__ import annotations

import pytest

from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from tests.consumer_guests.mixed import TOPIC_ID, Guest, Mixed, Modern

GRACE, INTERVAL, RECONNECT, SESSION = 2_000, 5_000, 500, 45_000


def three(**config: int) -> tuple[Mixed, list[Modern]]:
    ctx = Mixed(group_lost_connection_grace_ms=config.pop("grace", GRACE), **config)
    clients = [ctx.modern(name) for name in ("a", "b", "c")]
    for one in clients:
        one.join()
    ctx.settle(*clients)
    return ctx, clients


def lose(ctx: Mixed, *clients: Modern | Guest) -> None:
    for one in clients:
        ctx.run(ctx.shard.connection_lost("g", one.member_id, ctx.now))


def names(ctx: Mixed) -> list[str]:
    return sorted(ctx.consumer_group.members)


def test_a_lost_member_goes_when_its_heartbeat_is_overdue() -> None:
    ctx, (a, b, c) = three()
    lose(ctx, b)
    ctx.advance(INTERVAL + RECONNECT - 1)
    assert names(ctx) == ["a", "b", "c"]
    ctx.advance(1)
    assert names(ctx) == ["a", "c"]
    left = ctx.last_event(MemberLeft)
    assert (left.departure, left.limit_ms, left.silent_ms) == (
        Departure.CONNECTION_LOST,
        GRACE,
        INTERVAL + RECONNECT,
    )
    ctx.settle(a, c)
    assert sorted([*a.owned, *c.owned]) == [*range(6)]


def test_the_grace_counts_from_the_loss() -> None:
    ctx, (_, b, _) = three()
    ctx.advance(INTERVAL - 100)
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    assert "b" in names(ctx)
    ctx.advance(1)
    assert "b" not in names(ctx)


@pytest.mark.parametrize("way", ["heartbeat", "commit"])
def test_a_member_that_comes_back_stays(way: str) -> None:
    ctx, (a, b, c) = three()
    lose(ctx, b)
    ctx.advance(GRACE - 1)
    if way == "heartbeat":
        b.live()
    else:
        about = ("g", "b", b.generation_id, None)
        ctx.commit({min(b.owned): 1}, about, topic_id=TOPIC_ID, version=9)
    ctx.advance(INTERVAL + RECONNECT)
    assert names(ctx) == ["a", "b", "c"]
    ctx.settle(a, b, c)


def test_static_members_and_zero_are_kafka() -> None:
    ctx, (_, b, _) = three(grace=0)
    lose(ctx, b)
    ctx.advance(3 * INTERVAL)
    assert names(ctx) == ["a", "b", "c"]
    ctx = Mixed(group_lost_connection_grace_ms=GRACE)
    s, n = ctx.modern("s", instance="i"), ctx.modern("n")
    s.join()
    n.join()
    lose(ctx, s)
    ctx.advance(3 * INTERVAL)
    assert names(ctx) == ["n", "s"]


def test_most_of_the_group_at_once_is_no_crash() -> None:
    ctx, clients = three()
    lose(ctx, *clients)
    ctx.advance(SESSION - 1)
    assert names(ctx) == ["a", "b", "c"]


def test_the_broker_may_say_that_many_were_lost() -> None:
    ctx, (_, b, _) = three()
    lose(ctx, b)
    ctx.run(ctx.shard.spare_lost(ctx.now - 1_000, ctx.now))
    ctx.advance(3 * INTERVAL)
    assert names(ctx) == ["a", "b", "c"]


def test_the_only_member_stays_until_somebody_comes() -> None:
    ctx = Mixed(group_lost_connection_grace_ms=GRACE)
    a = ctx.modern("a")
    a.join()
    lose(ctx, a)
    ctx.advance(20_000)
    assert names(ctx) == ["a"]
    n = ctx.modern("n")
    n.join()
    ctx.advance(0)
    assert names(ctx) == ["n"]
    n.live()
    assert n.owned == set(range(6))


def test_a_guest_goes_by_its_own_interval() -> None:
    ctx = Mixed(group_lost_connection_grace_ms=GRACE)
    n, m = ctx.modern("n"), ctx.modern("m")
    n.join()
    m.join()
    a = ctx.guest("a", session=SESSION)
    a.begin()
    ctx.settle(n, m, a)
    ctx.advance(3_000)
    ctx.settle(n, m, a)
    lose(ctx, a)
    ctx.advance(3_000 + RECONNECT - 1)
    assert a.member_id in names(ctx)
    ctx.advance(1)
    assert a.member_id not in names(ctx)
