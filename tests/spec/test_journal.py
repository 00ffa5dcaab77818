"""The journal: why each rebalance began, its phases, whom it waited for, what it moved and what stood still."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from equipoise.broker.groups.journal import rebalance_row
from equipoise.coordinator import interventions
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.events import (
    MemberLeft,
    StateChanged,
)
from equipoise.coordinator.journal import ARRIVALS, COMPARED, KEPT, Journal, Rebalance, Timeouts
from equipoise.coordinator.reasons import CONSUMER_GROUP_TRIGGERS, NOBODY, Cause, Trigger, Who
from equipoise.coordinator.step import Step
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    TOPIC,
    Client,
    Context,
    assignment,
    protocols,
)
from tests.spec.journals import HOST, OTHER, PR, finish, heartbeats

# -- causes


def started(ctx: Context) -> Cause | None:
    """The cause of the last rebalance that began."""
    return next(event.cause for event in reversed(ctx.all_events(StateChanged)) if event.target is PR)


CAUSES: dict[Trigger, Callable[[Context, Client, Client], Cause]] = {}


def cause(trigger: Trigger) -> Callable[[Callable[[Context, Client, Client], Cause]], None]:
    def add(function: Callable[[Context, Client, Client], Cause]) -> None:
        CAUSES[trigger] = function

    return add


@cause(Trigger.MEMBER_JOINED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    ctx.client("c").enter(reason="scaling up")
    return Cause(Trigger.MEMBER_JOINED, Who("c-3", "c", HOST), "scaling up")


@cause(Trigger.MEMBER_LEFT)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    a.leave(reason="shutting down")
    return Cause(Trigger.MEMBER_LEFT, Who("a-1", "a", HOST), "shutting down")


@cause(Trigger.MEMBER_REMOVED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    ctx.leave(("", "i"), reason="by hand")
    return Cause(Trigger.MEMBER_REMOVED, Who("i-2", "s", HOST, "i"), "by hand")


@cause(Trigger.SESSION_EXPIRED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    ctx.advance(4_000)
    a.heartbeat()
    s.heartbeat()
    ctx.advance(5_000)
    s.heartbeat()
    ctx.advance(5_000)
    return Cause(Trigger.SESSION_EXPIRED, Who("a-1", "a", HOST), silent_ms=SESSION, limit_ms=SESSION)


@cause(Trigger.CONNECTION_LOST)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    ctx.config = ctx.shard.config = GroupConfig(group_lost_connection_grace_ms=2_000)
    ctx.advance(3_000)
    a.heartbeat()
    s.heartbeat()
    ctx.run(ctx.shard.connection_lost("g", a.member_id, ctx.now))
    ctx.advance(3_500)
    return Cause(Trigger.CONNECTION_LOST, Who("a-1", "a", HOST), silent_ms=3_500, limit_ms=2_000)


@cause(Trigger.SUBSCRIPTION_CHANGED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    s.join(offered=OTHER, reason="new topic")
    return Cause(Trigger.SUBSCRIPTION_CHANGED, Who("i-2", "s", HOST, "i"), "new topic")


@cause(Trigger.LEADER_REJOINED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    a.join(reason="partitions changed")
    return Cause(Trigger.LEADER_REJOINED, Who("a-1", "a", HOST), "partitions changed")


@cause(Trigger.STATIC_MEMBER_REPLACED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    a.join(offered=protocols("range", "sticky"))
    s.join(offered=protocols("range", "sticky"))
    finish(ctx)
    s.restart(offered=protocols("sticky"), reason="restarted")
    return Cause(Trigger.STATIC_MEMBER_REPLACED, Who("i-3", "s", HOST, "i"), "restarted")


@cause(Trigger.SYNC_EXPIRED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    a.join()
    s.join()
    a.sync()
    heartbeats(ctx, REBALANCE, a, s)
    return Cause(Trigger.SYNC_EXPIRED, Who("i-2", "s", HOST, "i"), silent_ms=REBALANCE, limit_ms=REBALANCE)


@cause(Trigger.ASSIGNMENT_NOT_WRITTEN)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    a.join()
    s.join()
    ctx.hold_writes()
    a.sync()
    ctx.fail_writes()
    return Cause(Trigger.ASSIGNMENT_NOT_WRITTEN)


@cause(Trigger.SIZE_LIMIT)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    ctx.config = Context(group_max_size=1).config
    ctx.restart()
    return Cause(Trigger.SIZE_LIMIT, group_max_size=1)


@cause(Trigger.REBALANCE_FORCED)
def _(ctx: Context, a: Client, s: Client) -> Cause:
    step = Step(ctx.now)
    interventions.rebalance(ctx.shard, "g", step)
    ctx.run(step)
    return Cause(Trigger.REBALANCE_FORCED)


@pytest.mark.parametrize("trigger", sorted(set(Trigger) - CONSUMER_GROUP_TRIGGERS, key=str))
def test_every_trigger_gives_an_entry_with_its_cause(trigger: Trigger) -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    expected = CAUSES[trigger](ctx, a, s)
    assert started(ctx) == expected
    at = next(event.at for event in reversed(ctx.all_events(StateChanged)) if event.target is PR)
    generation = ctx.group().generation_id
    ctx.holds_writes = False
    ctx.leave(*((member_id, None) for member_id in list(ctx.group().members)))  # so that it ends
    ctx.advance(0)
    entry = ctx.journal()[-1]
    assert (entry.group_id, entry.cause, entry.started) == ("g", expected, at)
    assert (entry.old_generation, entry.generation) == (generation, generation + 1)


# -- phases


def test_phases_of_a_rebalance() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.advance(1_000)
    began = ctx.now
    ctx.client("c").enter()
    ctx.advance(300)
    a.join()
    ctx.advance(500)
    b.join()
    ctx.advance(70)
    ctx.hold_writes()
    a.sync({a: assignment(0)})
    ctx.advance(9)
    ctx.durable()
    entry = ctx.journal()[-1]
    assert (entry.started, entry.ended) == (began, ctx.now)
    assert (entry.detect_ms, entry.join_ms, entry.assign_ms, entry.sync_ms) == (0, 800, 70, 9)
    assert (entry.old_generation, entry.generation, entry.members, entry.overtaken) == (1, 2, 3, False)


def test_detection_is_the_silence_before() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)
    a.join()
    assert finish(ctx, a=[0]).detect_ms == SESSION


def test_the_silence_of_a_member_that_was_parked_counts_from_its_answer() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    heartbeats(ctx, 30_000, b)
    b.join()
    ctx.advance(SESSION)  # nobody says anything
    left = ctx.all_events(MemberLeft)[0]
    assert (left.who.member_id, left.silent_ms, left.limit_ms) == ("a-1", SESSION, SESSION)


def test_a_rebalance_that_ends_empty_has_no_phases_but_an_end() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.advance(10)
    a.leave()
    entry = ctx.journal()[-1]
    assert (entry.ended, entry.generation, entry.members) == (ctx.now, 2, 0)
    assert (entry.join_ms, entry.assign_ms, entry.sync_ms) == (None, None, None)


def test_a_rebalance_that_is_overtaken_says_so() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    ctx.advance(50)
    b.leave()
    a.join()
    finish(ctx, a=[0])
    first, second = ctx.journal()
    assert (first.overtaken, first.cause.trigger, first.ended) == (True, Trigger.MEMBER_JOINED, ctx.now)
    assert (first.join_ms, first.sync_ms, first.moved) == (2 * DELAY, None, {})
    assert (second.overtaken, second.cause.trigger, second.old_generation) == (False, Trigger.MEMBER_LEFT, 1)


def test_so_many_rebalances_are_kept() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    for _ in range(KEPT + 5):
        a.join()
        a.sync()
    entries = ctx.journal()
    assert (len(entries), entries[-1].generation) == (KEPT, KEPT + 6)


def test_settle_completes_entries_in_their_order_and_each_once() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.join()
    a.sync({a: assignment(0, 1)})
    journal = ctx.group().journal
    first, second = journal.settle(), journal.settle()
    assert first is not None
    assert second is not None
    assert (first.generation, second.generation, journal.settle()) == (1, 2, None)
    assert (second.kept, second.moved) == (1, {(TOPIC, 1): (None, a.member_id)})


# -- whom it waited for


def test_waited_for_the_last_to_rejoin() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.client("c").enter()
    ctx.advance(10)
    b.join()
    ctx.advance(2_000)
    a.join()
    entry = finish(ctx)
    assert (entry.waited_for, entry.waited_ms) == (Who("a-1", "a", HOST), 2_010)


def test_arrivals_are_those_who_rejoined_the_slowest_last() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.client("c").enter()
    ctx.advance(10)
    b.join()
    ctx.advance(2_000)
    a.join()
    entry = finish(ctx)
    assert list(entry.arrivals.items()) == [("b-2", 10), ("a-1", 2_010)]
    assert (entry.protocol, entry.timeouts) == ("range", (Timeouts(SESSION, REBALANCE, 3),))
    row = rebalance_row(entry)
    assert row["arrivals"] == [["b-2", 10], ["a-1", 2_010]]
    assert (row["protocol"], row["timeouts"]) == ("range", [[SESSION, REBALANCE, 3]])


def test_of_many_arrivals_the_slowest_are_kept() -> None:
    journal = Journal("g")
    journal.begin(Cause(Trigger.MEMBER_JOINED), 0, 0)
    for number in range(ARRIVALS + 10):
        journal.arrived(Who(f"m-{number}"), None, number)
    journal.arrived(Who("m-20"), None, 1_000)
    journal.joined(1, (), (), 1_000, protocol=None)
    journal.stable({}, 1_000)
    entry = journal.settle()
    assert entry is not None
    names = list(entry.arrivals)
    assert (len(names), names[0], names[-1], entry.arrivals["m-20"]) == (ARRIVALS, "m-10", "m-20", 1_000)


def test_waited_for_a_newcomer_whose_id_was_reserved() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    p = ctx.client("p")
    p.join()
    a.join()
    b.join()
    ctx.advance(400)
    p.join()
    entry = finish(ctx)
    assert (entry.waited_for.client_id, entry.waited_ms) == ("p", 400)


def test_waited_for_a_member_until_its_session_ended() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    ctx.advance(1_000)
    a.join()
    ctx.advance(SESSION - 1_000)
    entry = finish(ctx)
    assert (entry.waited_for.client_id, entry.waited_ms) == ("b", SESSION - 1_000)


def test_waited_for_a_member_until_the_rebalance_timeout() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    heartbeats(ctx, REBALANCE, b)
    entry = finish(ctx)
    assert (entry.waited_for.client_id, entry.waited_ms, entry.join_ms) == ("b", REBALANCE, REBALANCE)


def test_waited_for_a_static_member_that_did_not_come() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", ctx.client("s", instance="i", session=100_000))
    a.join()
    ctx.advance(REBALANCE)
    entry = finish(ctx)
    assert (entry.waited_for, entry.waited_ms) == (Who("i-2", "s", HOST, "i"), REBALANCE)


def test_waited_for_a_static_member_that_came_back() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    a.join()
    ctx.advance(700)
    s.restart()
    entry = finish(ctx)
    assert (entry.waited_for.member_id, entry.waited_ms) == ("i-3", 700)


def test_waited_for_nobody_if_the_group_is_alone() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.join()
    entry = finish(ctx)
    assert (entry.waited_for, entry.waited_ms) == (NOBODY, 0)


# -- too much


def all_at_once(ctx: Context, *partitions: int, topic: str = TOPIC) -> Rebalance:
    """The leader takes all of them."""
    group = ctx.group()
    leader = group.leader or ""
    mine = encode_assignment(Assignment(assigned_partitions={topic: list(partitions)}))
    ctx.sync(("g", leader, group.generation_id, None), {leader: mine}, protocol=("consumer", group.protocol_name))
    return ctx.journal()[-1]


@pytest.mark.parametrize("count", [COMPARED + 1, 1_000_000])
def test_an_assignment_too_large_to_be_compared_is_counted(count: int) -> None:
    """A million partitions took seconds of the loop, and hundreds of megabytes."""
    ctx = Context()
    ctx.client("a").enter()
    ctx.advance(DELAY)
    began = time.process_time()
    entry = all_at_once(ctx, *range(count))
    assert time.process_time() - began < 2.0
    assert (entry.moved, entry.kept, entry.revoked, entry.dark_ms) == ({}, 0, [], {})
    assert count <= entry.cut <= count + 10


def test_as_many_as_can_be_compared_are() -> None:
    ctx = Context()
    ctx.client("a").enter()
    ctx.advance(DELAY)
    entry = all_at_once(ctx, *range(COMPARED))
    assert (len(entry.moved), entry.cut) == (COMPARED, 0)


def test_long_names_leave_room_for_fewer_and_the_others_are_counted() -> None:
    ctx = Context()
    ctx.client("a").enter()
    ctx.advance(DELAY)
    entry = all_at_once(ctx, *range(COMPARED), topic="t" * 249)
    assert len(entry.moved) + entry.cut == COMPARED
    assert 0 < len(json.dumps(rebalance_row(entry))) < 1_000_000


def test_what_a_member_says_again_and_again_is_kept_a_few_times() -> None:
    """Each rejoin of a rebalance that does not end brought its metadata, and all of it was kept."""
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    a.enter()
    ctx.advance(DELAY)
    finish(ctx, a=[0])
    b.enter()
    for number in range(50):
        large = encode_subscription(Subscription(topics=[TOPIC], user_data=bytes([number]) * 1_000_000))
        a.join(offered=protocols("range", metadata=large))
    group = ctx.group()
    kept = sum(len(metadata or b"") for rows in group.journal._stops.values() for _, metadata in rows)
    assert kept <= 1 << 20


def test_the_more_rebalances_list_the_fewer_are_kept() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.enter()
    ctx.advance(DELAY)
    for number in range(10):
        all_at_once(ctx, *range(number * 6_000, (number + 1) * 6_000))
        a.join()
    ctx.journal()
    assert sum(entry.listed for entry in ctx.group().journal.entries) <= 2 * COMPARED
