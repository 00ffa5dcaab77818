"""Events: members that join, leave and are fenced, commits that are refused, groups that are deleted."""

from __future__ import annotations

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import (
    CommitRefused,
    GroupDeleted,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    StateChanged,
)
from equipoise.coordinator.reasons import (
    CONSUMER_GROUP_DEPARTURES,
    CONSUMER_GROUP_REFUSALS,
    Departure,
    Refusal,
    Trigger,
    Who,
)
from tests.spec.context import (
    DELAY,
    REBALANCE,
    RETENTION,
    SESSION,
    SWEEP,
    Client,
    Context,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))
HOST = "/10.0.0.1"


def heartbeats(ctx: Context, ms: int, *clients: Client) -> None:
    for _ in range(ms // 5_000):
        ctx.advance(5_000)
        for client in clients:
            client.heartbeat()


def test_event_joined() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.join()
    assert ctx.all_events(MemberJoined) == []
    a.join()
    assert ctx.all_events(MemberJoined) == [MemberJoined("g", ctx.now, Who("a-1", "a", HOST))]


# FIRST_JOIN_EXPIRED, which takes five minutes and a group that waits, is in test_2_join_group; CONNECTION_LOST, which
# no client says, in test_lost_connections.
ELSEWHERE = {Departure.FIRST_JOIN_EXPIRED, Departure.CONNECTION_LOST, *CONSUMER_GROUP_DEPARTURES}


@pytest.mark.parametrize("departure", [one for one in Departure if one not in ELSEWHERE])
def test_event_left(departure: Departure) -> None:
    ctx = Context()
    a, b, s = ctx.stable("a", "b", ctx.client("s", instance="i"))
    ctx.advance(1_000)
    b_left, s_left = Who("b-2", "b", HOST), Who("i-3", "s", HOST, "i")
    if departure is Departure.LEFT:
        b.leave(reason="bye")
        expected = MemberLeft("g", ctx.now, b_left, departure, "bye", silent_ms=0, limit_ms=0)
    elif departure is Departure.REMOVED:
        ctx.leave(("", "i"), reason="by hand")
        expected = MemberLeft("g", ctx.now, s_left, departure, "by hand", silent_ms=1_000, limit_ms=0)
    elif departure is Departure.SESSION_EXPIRED:
        a.heartbeat()
        s.heartbeat()
        ctx.advance(SESSION - 1_000)
        expected = MemberLeft("g", ctx.now, b_left, departure, None, silent_ms=SESSION, limit_ms=SESSION)
    elif departure is Departure.FIRST_JOIN_EXPIRED:
        ctx.client("n").enter(rebalance=600_000)
        heartbeats(ctx, NEW_MEMBER_JOIN_TIMEOUT_MS, a, b, s)
        limit = NEW_MEMBER_JOIN_TIMEOUT_MS
        expected = MemberLeft("g", ctx.now, Who("n-4", "n", HOST), departure, None, silent_ms=limit, limit_ms=limit)
    elif departure is Departure.JOIN_EXPIRED:
        a.join()
        s.join()
        heartbeats(ctx, REBALANCE, b)
        expected = MemberLeft("g", ctx.now, b_left, departure, None, silent_ms=5_000, limit_ms=REBALANCE)
    elif departure is Departure.SYNC_EXPIRED:
        a.join()
        b.join()
        s.join()
        s.sync()
        a.sync()
        heartbeats(ctx, REBALANCE, a, b, s)
        expected = MemberLeft("g", ctx.now, b_left, departure, None, silent_ms=5_000, limit_ms=REBALANCE)
    elif departure is Departure.REPLACED:
        s.restart(reason="restarted")
        expected = MemberLeft("g", ctx.now, s_left, departure, "restarted", silent_ms=1_000, limit_ms=0)
    else:
        assert departure is Departure.GROUP_FULL
        ctx.config = Context(group_max_size=2).config
        ctx.restart()
        a.join()
        s.join()
        b.join()
        expected = MemberLeft("g", ctx.now, b_left, departure, group_max_size=2)
    assert ctx.all_events(MemberLeft) == [expected]


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"])
def test_event_fenced(request_name: str) -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    old = s.member_id
    s.restart()
    ctx.advance(10)
    about = ("g", old, 1, "i")
    {
        "JoinGroup": lambda: ctx.join(old, instance="i"),
        "SyncGroup": lambda: ctx.sync(about, {}),
        "Heartbeat": lambda: ctx.heartbeat(about),
        "LeaveGroup": lambda: ctx.leave((old, "i")),
    }[request_name]()
    assert ctx.all_events(MemberFenced) == [MemberFenced("g", ctx.now, Who(old, "client", HOST, "i"), request_name)]


def test_event_unknown_members_are_not_fenced() -> None:
    ctx = Context()
    ctx.stable("a")
    ctx.heartbeat(("g", "stranger", 1, None))
    assert ctx.all_events(MemberFenced) == []


@pytest.mark.parametrize("refusal", sorted(set(Refusal) - CONSUMER_GROUP_REFUSALS, key=str))
def test_event_commit_refused(refusal: Refusal) -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    if refusal is Refusal.REBALANCE_IN_PROGRESS:
        a.join()
        s.join()
    about, generation, known = {
        Refusal.UNKNOWN_GROUP: (("h", a.member_id, 3, None), 3, -1),
        Refusal.UNKNOWN_MEMBER: (("g", "x", 1, None), 1, 1),
        Refusal.FENCED_INSTANCE: (("g", "x", 1, "i"), 1, 1),
        Refusal.OLD_GENERATION: (("g", a.member_id, 0, None), 0, 1),
        Refusal.REBALANCE_IN_PROGRESS: (("g", a.member_id, 2, None), 2, 2),
        Refusal.STANDALONE_IN_LIVE_GROUP: (("g", "", -1, None), -1, 1),
    }[refusal]
    ctx.commit({0: 1}, about)
    who = Who(about[1], "client", HOST, about[3])
    assert ctx.all_events(CommitRefused) == [
        CommitRefused(about[0], ctx.now, who, refusal, generation_id=generation, group_generation_id=known)
    ]


def test_event_group_deleted_when_the_tombstone_is_durable() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.hold_writes()
    ctx.delete_group()
    assert ctx.all_events(GroupDeleted) == []
    ctx.durable()
    assert ctx.all_events(GroupDeleted) == [GroupDeleted("g", ctx.now, False)]


def test_event_group_deleted_by_expiry() -> None:
    ctx = Context()
    ctx.commit({0: 1})
    ctx.advance(RETENTION + SWEEP)
    (event,) = ctx.all_events(GroupDeleted)
    assert event.expired


def test_event_state_changes_of_a_whole_life() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.enter()
    ctx.advance(DELAY)
    a.sync()
    a.leave()
    rows = [(event.origin, event.target, event.generation_id) for event in ctx.all_events(StateChanged)]
    assert rows == [(EMPTY, PR, 0), (PR, CR, 1), (CR, STABLE, 1), (STABLE, PR, 1), (PR, EMPTY, 2)]
    causes = [event.cause and event.cause.trigger for event in ctx.all_events(StateChanged)]
    assert causes == [Trigger.MEMBER_JOINED, None, None, Trigger.MEMBER_LEFT, None]
