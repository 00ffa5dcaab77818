"""Members that ask for their assignment only when it is there already: who they are, and when they asked."""

from __future__ import annotations

from equipoise.broker.groups.journal import event_row, rebalance_row
from equipoise.coordinator.events import MembersSynced, StateChanged
from equipoise.coordinator.journal import ARRIVALS, Journal
from equipoise.coordinator.reasons import Cause, Trigger, Who
from tests.spec.context import Client, Context, assignment


def two_late_ones() -> tuple[Context, Client, Client, Client]:
    """The leader assigns at once; b asks 30 ms later, and c has not asked yet."""
    ctx = Context()
    a, b, c = ctx.completing("a", "b", "c")
    ctx.advance(5)
    a.sync({a: assignment(0), b: assignment(1), c: assignment(2)})
    ctx.advance(30)
    b.sync()
    return ctx, a, b, c


def test_the_last_to_ask_ends_the_story() -> None:
    ctx, a, b, c = two_late_ones()
    entry = ctx.journal()[-1]
    assert entry.unsynced == (b.member_id, c.member_id)
    assert ctx.all_events(MembersSynced) == []
    ctx.advance(10)
    c.sync()
    asked = ctx.now - entry.started
    syncs = ((b.member_id, asked - 10), (c.member_id, asked))
    assert ctx.all_events(MembersSynced) == [MembersSynced("g", ctx.now, entry.generation, syncs)]
    for client in (a, b, c):  # an answer was lost, and they ask again
        client.sync()
    assert len(ctx.all_events(MembersSynced)) == 1


def test_the_next_rebalance_ends_it_too_and_who_never_asked_is_not_named() -> None:
    ctx, _, b, _ = two_late_ones()
    ctx.client("d").enter()
    (told,) = ctx.all_events(MembersSynced)
    assert [member_id for member_id, _ in told.syncs] == [b.member_id]
    assert told.at == ctx.last_event(StateChanged).at


def test_who_asked_before_the_assignment_is_not_late() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    b.sync()
    a.sync({a: assignment(0), b: assignment(1)})
    assert ctx.journal()[-1].unsynced == ()
    b.sync()
    assert ctx.all_events(MembersSynced) == []


def test_of_thousands_only_some_are_named() -> None:
    journal = Journal("g")
    journal.begin(Cause(Trigger.MEMBER_JOINED), 0, 0)
    names = [f"m-{number}" for number in range(ARRIVALS + 10)]
    journal.stable({}, 100, names)
    for name in names:
        journal.synced(name, 200)
    assert journal.entries[-1].unsynced == tuple(names[:ARRIVALS])
    assert journal.take_syncs() == tuple((name, 200) for name in names[:ARRIVALS])
    assert journal.take_syncs() == ()


def test_of_thousands_those_are_named_whose_arrival_is() -> None:
    """Else the page would take them for members that had asked in time."""
    journal = Journal("g")
    journal.begin(Cause(Trigger.MEMBER_JOINED), 0, 0)
    names = [f"m-{number}" for number in range(3 * ARRIVALS)]
    for name in names:
        journal.arrived(Who(name), None, 10)
    journal.stable({}, 100, names)
    assert set(journal.entries[-1].unsynced) == set(journal.entries[-1].arrivals) == set(names[-ARRIVALS:])


def test_rows_cut_a_long_name_in_both_places_alike() -> None:
    journal = Journal("g")
    journal.begin(Cause(Trigger.MEMBER_JOINED), 0, 0)
    journal.stable({}, 100, ["m" * 5_000])
    journal.synced("m" * 5_000, 250)
    row = event_row(MembersSynced("g", 250, 1, journal.take_syncs()), 0)
    ((name, after),) = row["syncs"]
    assert (row["type"], row["generation_id"], after) == ("members_synced", 1, 250)
    assert rebalance_row(journal.entries[-1])["unsynced"] == [name]
    assert len(name) < 1_010
