"""Where partitions are, as values: leaders, epochs, where epochs end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.broker.cluster.placement import NOBODY, Placement, epoch_end, epoch_of, spread, with_epoch
from equipoise.broker.cluster.placements import Placements, Replication, Rows


class Shelf:
    """Keeps what is saved."""

    def __init__(self) -> None:
        self.rows: Rows = {}

    def load_placements(self) -> Rows:
        return self.rows

    def save_placements(self, rows: Rows) -> None:
        self.rows = rows


def test_each_move_raises_the_epoch() -> None:
    first = Placement((1, 2, 3), 1)
    second = first.led_by(2, 10)
    assert (second.leader, second.epoch, second.starts) == (2, 1, ((0, 0), (1, 10)))
    third = second.led_by(2, 25)
    assert (third.leader, third.epoch, third.starts) == (2, 2, ((0, 0), (1, 10), (2, 25)))


def test_an_epoch_without_records_leaves_no_start() -> None:
    assert Placement((1, 2), 1).led_by(2, 0).led_by(1, 0).starts == ((2, 0),)
    assert Placement((1, 2), 1).led_by(2, 7).led_by(1, 7).led_by(2, 9).starts == ((0, 0), (2, 7), (3, 9))


def test_the_first_replica_that_lives_is_elected() -> None:
    placement = Placement((3, 1, 2), 3)
    assert placement.elected([1, 2, 3], 5) is placement
    assert placement.elected([1, 2], 5).leader == 1
    gone = placement.elected([], 5)
    assert (gone.leader, gone.epoch) == (NOBODY, 1)
    assert gone.elected([], 5) is gone
    back = gone.elected([2], 5)
    assert (back.leader, back.epoch, back.starts) == (2, 2, ((0, 0), (2, 5)))


def test_a_leader_stays_while_it_is_a_replica() -> None:
    placement = Placement((1, 2), 1)
    kept = placement.reassigned((3, 1), [1, 2, 3], 5)
    assert (kept.leader, kept.epoch, kept.replicas) == (1, 0, (3, 1))
    moved = placement.reassigned((3, 2), [1, 2, 3], 5)
    assert (moved.leader, moved.epoch) == (3, 1)
    past_the_dead = placement.reassigned((3, 2), [1, 2], 5)
    assert (past_the_dead.leader, past_the_dead.epoch) == (2, 1)


def test_a_start_with_fewer_brokers() -> None:
    one_is_left = Placement((3, 1), 3).adopted([1], 8)
    assert (one_is_left.leader, one_is_left.epoch, one_is_left.replicas) == (1, 1, (3, 1))
    none_is_left = Placement((2, 3), 2).adopted([1], 8)
    assert (none_is_left.leader, none_is_left.epoch, none_is_left.replicas) == (1, 1, (1,))


@pytest.mark.parametrize(
    ("asked", "found"),
    {-1: (-1, -1), 1: (1, 4), 2: (2, 10), 3: (2, 10), 4: (2, 10), 5: (5, 30), 6: (-1, -1)}.items(),
)
def test_where_an_epoch_ends(asked: int, found: tuple[int, int]) -> None:
    """As LeaderEpochFileCacheTest has it: an epoch below all ends where the first begins."""
    assert epoch_end(((2, 4), (5, 10)), asked, 30) == found


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12))
def test_epochs_agree_with_records_stamped_one_by_one(deeds: list[tuple[int, bool]]) -> None:
    """Some records, then perhaps a move: the epoch of each record, and the end of each epoch that has records."""
    placement, stamps = Placement((1, 2), 1), list[int]()
    for count, moves in deeds:
        stamps += [placement.epoch] * count
        if moves:
            placement = placement.led_by(2, len(stamps))
    for offset, epoch in enumerate(stamps):
        assert epoch_of(placement.starts, offset) == epoch
    for epoch in set(stamps):
        last = max(at for at, one in enumerate(stamps) if one == epoch)
        assert epoch_end(placement.starts, epoch, len(stamps)) == (epoch, last + 1)
    assert epoch_end(placement.starts, placement.epoch + 1, len(stamps)) == (-1, -1)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=10))
def test_starts_rise(offsets: list[int]) -> None:
    """Also where the log was cut: what begins later has no records any more."""
    starts: Any = ((0, 0),)
    for epoch, offset in enumerate(offsets, start=1):
        starts = with_epoch(starts, epoch, offset)
        assert starts[-1] == (epoch, offset)
        assert [one for one, _ in starts] == sorted({one for one, _ in starts})
        assert [at for _, at in starts] == sorted({at for _, at in starts})


def test_a_thousand_epochs_are_remembered() -> None:
    placement = Placement((1, 2), 1)
    for offset in range(1, 3_001):
        placement = placement.led_by(2, offset)
    assert len(placement.starts) == 1_001
    assert epoch_end(placement.starts, 2_500, 9_999) == (2_500, 2_501)
    assert epoch_end(placement.starts, 7, 9_999) == (7, 2_000)  # as where the records of that time are deleted


def test_leaders_are_spread() -> None:
    assert spread([1, 2, 3], 4, factor=2, first=1) == [(2, 3), (3, 1), (1, 2), (2, 3)]


def test_placements_survive_their_process() -> None:
    shelf = Shelf()
    placements = Placements(shelf, range(1, 4), 3)
    placements.add([(b"topic", 2, Replication()), (b"other", 1, Replication(None, ((3,),)))], [1, 2, 3])
    placements.put({(b"topic", 1): placements.of(b"topic", 1).led_by(3, 9)})
    again = Placements(shelf, range(1, 4), 3)
    assert again.of(b"topic", 1) == placements.of(b"topic", 1)
    assert again.of(b"topic", 1).starts == ((0, 0), (1, 9))
    assert again.of(b"other", 0) == Placement((3,), 3)
    again.retain([b"other"])
    assert not again.is_placed(b"topic", 0)
    placements.remove([b"topic"])
    assert [*shelf.rows] == [b"other".hex()]


def test_a_broker_alone_saves_nothing() -> None:
    shelf = Shelf()
    placements = Placements(shelf, range(4, 5), 1)
    placements.add([(b"topic", 2, Replication())], [4])
    found: Mapping[str, object] = shelf.rows
    assert (found, placements.of(b"topic", 1)) == ({}, Placement((4,), 4))
