"""Members and coordinator together: what the application is told, and when."""

from __future__ import annotations

import pytest

from equipoise.member import MemberState, TopicPartition
from tests.member.town import Town


def places(*numbers: int) -> set[TopicPartition]:
    return {TopicPartition("t", number) for number in numbers}


def test_a_member_alone_gets_everything() -> None:
    town = Town()
    a = town.member("a").subscribe("t")
    town.settle()
    assert a.told == [("on_assigned", places(0, 1, 2))]
    assert a.member.state is MemberState.STABLE


def test_eager_everything_is_revoked_before_the_join() -> None:
    town = Town()
    a = town.member("a").subscribe("t")
    town.settle()
    b = town.member("b").subscribe("t")
    town.settle()
    assert a.told[1:] == [("on_revoked", places(0, 1, 2)), ("on_assigned", places(0, 1))]
    assert b.told == [("on_assigned", places(2))]


def test_cooperative_only_what_moves_is_revoked() -> None:
    town = Town()
    a = town.member("a", "cooperative-sticky").subscribe("t")
    town.settle()
    b = town.member("b", "cooperative-sticky").subscribe("t")
    town.settle()
    revoked = [partitions for kind, partitions in a.told if kind == "on_revoked"]
    assert len(revoked) == 1
    assert len(revoked[0]) == 1
    assert b.told == [("on_assigned", set()), ("on_assigned", revoked[0])]
    assert a.member.generation_id == 3


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_member_that_closes_leaves_and_the_others_get_its_share(assignor: str) -> None:
    town = Town()
    a, b = (town.member(name, assignor).subscribe("t") for name in "ab")
    town.settle()
    town.advance(3_000)
    owned = a.member.assignment
    a.close()
    town.settle()
    assert a.told[-1] == ("on_revoked", owned)
    assert a.member.has_left
    assert b.owned == {0, 1, 2}


def test_a_member_that_is_silent_expires_and_hears_of_it() -> None:
    town = Town()
    a, b = (town.member(name, session_timeout_ms=10_000).subscribe("t") for name in "ab")
    town.settle()
    owned = a.member.assignment
    a.connected = False
    town.advance(20_000)
    assert b.owned == {0, 1, 2}
    a.connected = True
    town.settle()
    assert ("on_lost", owned) in a.told
