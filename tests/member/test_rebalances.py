"""Members and coordinator together: what the application is told, and when."""

from __future__ import annotations

import pytest

from equipoise.member import MemberState
from tests.member.town import places, town


def test_a_member_alone_gets_everything() -> None:
    world = town()
    a = world.consumer("a").subscribe("t")
    world.settle()
    assert a.callbacks == [("on_assigned", places(0, 1, 2))]
    assert a.member.state is MemberState.STABLE


def test_eager_everything_is_revoked_before_the_join() -> None:
    world = town()
    a = world.consumer("a").subscribe("t")
    world.settle()
    b = world.consumer("b").subscribe("t")
    world.settle()
    assert a.callbacks[1:] == [("on_revoked", places(0, 1, 2)), ("on_assigned", places(0, 1))]
    assert b.callbacks == [("on_assigned", places(2))]


def test_cooperative_only_what_moves_is_revoked() -> None:
    world = town()
    a = world.consumer("a", "cooperative-sticky").subscribe("t")
    world.settle()
    b = world.consumer("b", "cooperative-sticky").subscribe("t")
    world.settle()
    revoked = [partitions for kind, partitions in a.callbacks if kind == "on_revoked"]
    assert len(revoked) == 1
    assert len(revoked[0]) == 1
    assert b.callbacks == [("on_assigned", set()), ("on_assigned", revoked[0])]
    assert a.member.generation_id == 3


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_that_closes_leaves_and_the_others_get_its_share(assignor: str) -> None:
    world = town()
    a, b = (world.consumer(name, assignor).subscribe("t") for name in "ab")
    world.settle()
    world.advance(3_000)
    owned = a.member.assignment
    a.close()
    world.settle()
    assert a.callbacks[-1] == ("on_revoked", owned)
    assert a.member.has_left
    assert b.partitions == {0, 1, 2}


def test_a_member_that_is_silent_expires_and_hears_of_it() -> None:
    world = town()
    a, b = (world.consumer(name, session_timeout_ms=10_000).subscribe("t") for name in "ab")
    world.settle()
    owned = a.member.assignment
    a.connection.is_up = False
    world.advance(20_000)
    assert b.partitions == {0, 1, 2}
    a.connection.is_up = True
    world.settle()
    assert ("on_lost", owned) in a.callbacks
