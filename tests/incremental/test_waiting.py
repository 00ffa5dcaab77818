"""Rules C4.6 and C6.7: what waits in an incremental group, when there are many, and when a write fails."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.incremental import syncs
from equipoise.coordinator.incremental.calls import PATIENCE_MS
from equipoise.wire.errors import ErrorCode
from tests.incremental.stage import Kept, One

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


class Shifting(One):
    """Its assignor moves nearly everything when a member comes."""

    def offer(self, *args: Any, **fields: Any) -> One:
        super().offer(*args, **fields)
        self.protocols = [("roundrobin", metadata) for _, metadata in self.protocols]
        return self

    def offers(self) -> list[tuple[str, bytes]]:
        return [("roundrobin", metadata) for _, metadata in super().offers()]


class Shifted(Kept):
    def guest(self, name: str, **settings: Any) -> One:
        return Shifting(self, name, **settings)


def test_c4_6_many_that_wait_go_on_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives something up for the others. One inside the other, 214 of them were too deep for Python."""
    depth, depths = 0, list[int]()
    go_on = syncs._go_on

    def counted(*args: Any, **options: Any) -> None:
        nonlocal depth
        depth += 1
        depths.append(depth)
        go_on(*args, **options)
        depth -= 1

    ctx = Shifted(partitions=72)
    members = ctx.members(*(f"m{number:02}" for number in range(24)), eager=True)
    ctx.entered("z", eager=True)
    calls = []
    for one in members[1::2]:
        assert one.again(owned=()).error is NONE
        calls.append((one, one.sync()))
    waiting = [call for _, call in calls if call.is_parked]
    monkeypatch.setattr(syncs, "_go_on", counted)
    ctx.entered("a", eager=True)
    assert len(waiting) == 8
    assert (max(depths), len(depths)) == (1, 2 * len(waiting))
    assert len(ctx.kept.syncs) == len(waiting)
    ctx.advance(PATIENCE_MS)
    assert {call.error for _, call in calls} == {NONE}


def test_c6_7_who_waits_behind_a_join_that_cannot_be_written_is_answered() -> None:
    """Else its parked SyncGroup would be looked for among the members, by every later JoinGroup."""
    ctx = Kept()
    a, b = ctx.members("a", "b")
    c = ctx.guest("c")
    c.join("")
    ctx.hold_writes()
    joining = c.join()
    generation = ctx.consumer_group.members[c.member_id].member_epoch
    syncing = c.sync(generation_id=generation, protocol_name="cooperative-sticky")
    assert (joining.is_parked, list(ctx.kept.syncs)) == (True, [c.member_id])
    ctx.fail_writes()
    ctx.holds_writes = False
    assert joining.error is syncing.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (ctx.kept.syncs, ctx.kept.stances.keys() - ctx.consumer_group.members.keys()) == ({}, set())
    d = ctx.entered("d")
    call = d.sync()
    ctx.advance(PATIENCE_MS)
    assert (call.error, a.told, b.told) == (NONE, REJOIN, REJOIN)


def test_c6_7_a_heartbeat_behind_a_join_that_cannot_be_written_is_answered() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.guest("b")
    b.join("")
    ctx.hold_writes()
    b.join()
    generation = ctx.consumer_group.members[b.member_id].member_epoch
    held = b.heartbeat(generation_id=generation, hold_ms=3_000)
    ctx.fail_writes()
    ctx.holds_writes = False
    assert held.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ctx.entered("c")
    assert a.told is REJOIN
