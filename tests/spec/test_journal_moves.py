"""The journal: what a rebalance moved, and how long partitions had no owner."""

from __future__ import annotations

import pytest

from tests.spec.context import (
    SESSION,
    TOPIC,
    Context,
    assignment,
)
from tests.spec.journals import CR, cooperative, finish

# -- what moved


def test_moved_kept_and_revoked() -> None:
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    ctx.stable(a, b, assignments={a: assignment(0, 1, 4), b: assignment(2, 3)})
    a.join()
    b.join()
    entry = finish(ctx, a=[0, 2], b=[3, 1])
    assert entry.kept == 2
    assert entry.moved == {(TOPIC, 2): ("b-2", "a-1"), (TOPIC, 1): ("a-1", "b-2")}
    assert entry.revoked == [(TOPIC, 4)]


def test_the_first_assignment_moves_all_from_nobody_and_nothing_was_dark() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    (entry,) = ctx.journal()
    assert (entry.moved, entry.kept, entry.revoked, entry.dark_ms) == ({(TOPIC, 0): (None, a.member_id)}, 0, [], {})


def test_becoming_empty_revokes_all() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert ctx.journal()[-1].revoked == [(TOPIC, 0)]


def test_after_a_restart_what_was_owned_is_known() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.restart()
    a.join()
    b.join()
    entry = finish(ctx, a=[0, 1])
    assert (entry.kept, entry.moved) == (1, {(TOPIC, 1): ("b-2", "a-1")})


def test_a_static_member_that_resumed_under_a_new_id_has_kept_its_partitions() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    s.restart()
    a.join()
    s.join()
    entry = finish(ctx, a=[0], s=[1])
    assert (entry.kept, entry.moved) == (2, {})


def test_a_static_member_whose_return_could_not_be_written_has_kept_its_partitions() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    s.restart()
    ctx.fail_writes()
    ctx.holds_writes = False
    a.join()
    s.join()
    entry = finish(ctx, a=[0], s=[1])
    assert (entry.kept, entry.moved) == (2, {})


@pytest.mark.parametrize(
    ("protocol_type", "data"),
    [("consumer", b"?"), ("connect", b"?"), ("connect", assignment(0))],
    ids=["unreadable", "another type", "another type that looks the same"],
)
def test_assignments_that_are_not_the_consumer_protocols_move_nothing(protocol_type: str, data: bytes) -> None:
    ctx = Context()
    a = ctx.client("a", protocol_type=protocol_type, offered=[("default", b"?")])
    ctx.stable(a, assignments={a: data})
    (entry,) = ctx.journal()
    assert (entry.moved, entry.kept, entry.revoked) == ({}, 0, [])


# -- how long partitions had no owner


def test_dark_an_eager_member_stops_with_its_join_and_goes_on_when_all_is_stable() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    ctx.advance(300)
    b.join()
    ctx.advance(50)
    entry = finish(ctx, a=[0], b=[1])
    assert entry.dark_ms == {(TOPIC, 0): 350, (TOPIC, 1): 50}


def test_dark_a_cooperative_member_goes_on_with_what_it_says() -> None:
    ctx = Context()
    a = ctx.client("a", offered=cooperative())
    ctx.stable(a, assignments={a: assignment(0, 1, 2)})
    ctx.client("b", offered=cooperative()).enter()
    ctx.advance(40)
    a.join(offered=cooperative(0, 1, 2))
    second = finish(ctx, a=[0, 1])
    assert (second.dark_ms, second.kept, second.revoked) == ({}, 2, [(TOPIC, 2)])
    ended = ctx.now
    ctx.advance(60)
    a.join(offered=cooperative(0, 1))
    ctx.advance(5)
    ctx.join("b-2", offered=cooperative())
    third = finish(ctx, a=[0, 1], b=[2])
    assert third.dark_ms == {(TOPIC, 2): ctx.now - ended}
    assert (third.kept, third.moved) == (2, {(TOPIC, 2): (None, "b-2")})


def test_dark_since_a_silent_member_was_last_heard_of() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.advance(2_000)
    b.heartbeat()
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)
    ctx.advance(20)
    a.join()
    entry = finish(ctx, a=[0, 1])
    assert entry.dark_ms == {(TOPIC, 0): 0, (TOPIC, 1): SESSION + 20}


def test_dark_since_a_member_left_not_since_its_last_heartbeat() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    ctx.advance(3_000)
    b.leave()
    ctx.advance(15)
    a.join()
    assert finish(ctx, a=[0, 1]).dark_ms == {(TOPIC, 0): 0, (TOPIC, 1): 15}


def test_dark_since_the_first_stop_when_a_rebalance_is_overtaken() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    ctx.advance(100)
    b.join()
    assert ctx.state is CR
    ctx.advance(100)
    ctx.client("c").enter()
    a.join()
    b.join()
    entry = finish(ctx, a=[0], b=[1])
    assert entry.dark_ms == {(TOPIC, 0): 200, (TOPIC, 1): 100}


def test_dark_while_the_group_was_empty() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.advance(5_000)
    b = ctx.client("b")
    b.enter()
    assert finish(ctx, b=[0]).dark_ms == {(TOPIC, 0): 5_000}


def test_dark_since_the_old_incarnation_of_a_static_member_was_last_heard_of() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.advance(4_000)
    a.join()
    ctx.advance(1_000)
    s.restart()
    entry = finish(ctx, a=[0], s=[1])
    assert entry.dark_ms == {(TOPIC, 0): 1_000, (TOPIC, 1): 5_000}
    assert (entry.kept, entry.moved) == (2, {})
