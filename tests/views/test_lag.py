"""Rings: the age of the oldest unread record, the trend of lag, the pace of commits."""

from __future__ import annotations

import pytest

from equipoise.views.lag import ENDS, WINDOW_MS, WINDOWS, Behind, CommitPace, EndRing, LagRing, clears_in, never_shrank
from equipoise.views.model import Ms


def _ends(*pairs: tuple[int, int]) -> EndRing:
    ring = EndRing()
    for at, end in pairs:
        ring.add(Ms(at), end)
    return ring


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (200, Behind(0)),  # all is read
        (250, Behind(0)),  # the end moved back behind a commit
        (199, Behind(1_000)),  # the last record was there when the end was read
        (149, Behind(6_000)),  # half way between 10 s and 20 s
        (100, Behind(10_900)),
        (40, Behind(21_000, is_at_least=True)),  # older than what was seen: nothing is extrapolated
    ],
)
def test_behind_is_interpolated_between_two_ends(offset: int, expected: Behind) -> None:
    assert _ends((0, 50), (10_000, 100), (20_000, 200)).behind(offset, Ms(21_000)) == expected


def test_behind_is_unknown_before_the_first_end_and_after_a_topic_was_made_anew() -> None:
    assert EndRing().behind(3, Ms(5)) is None
    ring = _ends((0, 50), (10, 3))
    assert ring.behind(1, Ms(20)) == Behind(10, is_at_least=True)


def test_rings_are_bounded() -> None:
    ring = _ends(*((number, number) for number in range(ENDS * 3)))
    assert ring.behind(0, Ms(ENDS * 3)) == Behind(ENDS, is_at_least=True)
    lags = LagRing()
    for number in range(WINDOWS * 2):
        lags.add(Ms(number * WINDOW_MS), number)
    assert (len(lags.series), lags.series[0], lags.series[-1]) == (WINDOWS, WINDOWS, WINDOWS * 2 - 1)


def test_a_window_without_a_figure_has_that_of_the_one_before() -> None:
    ring = LagRing()
    for at, lag in ((0, 5), (WINDOW_MS - 1, 7), (3 * WINDOW_MS, 9)):
        ring.add(Ms(at), lag)
    assert ring.series == (7, 7, 7, 9)
    ring.add(Ms(10_000 * WINDOW_MS), 1)
    assert len(ring.series) == WINDOWS


def test_lag_that_never_shrank_in_ten_windows() -> None:
    assert never_shrank(tuple(range(11)))
    assert not never_shrank(tuple(range(10)))  # too few to tell
    assert not never_shrank((5,) * 11)  # it does not grow either
    assert not never_shrank((0, 1, 2, 3, 2, 5, 6, 7, 8, 9, 10))


def test_the_time_until_nothing_is_left() -> None:
    assert clears_in((100, 80, 60)) == 3 * WINDOW_MS
    assert clears_in((60, 80)) is None
    assert clears_in((60,)) is None


def test_the_pace_of_commits_is_their_median() -> None:
    pace = CommitPace()
    assert (pace.last, pace.usual_ms) == (None, None)
    for at in (0, 5_000, 5_000, 10_000, 70_000, 75_000):
        pace.add(Ms(at))
    assert (pace.last, pace.usual_ms) == (75_000, 5_000)


def test_a_time_in_which_nothing_came_takes_two_places_of_the_ring() -> None:
    ring = EndRing()
    for at in range(0, 1_000_000, 1_000):
        ring.add(Ms(at), 7)
    assert ring.per_second == 0
    ring.add(Ms(1_000_000), 9)
    assert ring.behind(7, Ms(1_000_000)) == Behind(500)  # the first of two records of the last second
    assert ring.behind(6, Ms(1_000_000)) == Behind(1_000_000, is_at_least=True)
    assert ring.per_second == 2
