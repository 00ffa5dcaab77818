"""Lag over time, in rings of bounded size: how old the oldest unread record is, and whether a group keeps up."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from equipoise.views.model import Ms

ENDS = 120  # pairs of time and end kept of each partition
WINDOWS = 240  # of the lag of a group
WINDOW_MS = 15_000
_TREND = 10  # windows over which lag must shrink
_INTERVALS = 10  # between commits


class Behind(NamedTuple):
    """The age of the oldest record that is not read. `is_at_least`: it is older than what was seen."""

    ms: int
    is_at_least: bool = False


class EndRing:
    """When a partition's end was where: the time at which a record was written, by interpolation."""

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._times = array("q")  # ten thousand partitions in a tenth of the memory of a deque
        self._ends = array("q")

    def add(self, at: Ms, end: int) -> None:
        """The end as it was at this time. An end that went back, as after a deletion of the topic, begins anew."""
        if self._ends and end < self._ends[-1]:
            del self._times[:], self._ends[:]
        if len(self._ends) > 1 and self._ends[-1] == self._ends[-2] == end:
            self._times[-1] = at  # nothing came: of such a time its begin and its end are enough
            return
        if len(self._ends) == ENDS:
            del self._times[0], self._ends[0]
        self._times.append(at)
        self._ends.append(end)

    @property
    def per_second(self) -> float | None:
        """Records that came, between the last two looks; None: there was one look at most."""
        if len(self._ends) < 2 or self._times[-1] <= self._times[-2]:
            return None
        return (self._ends[-1] - self._ends[-2]) * 1000 / (self._times[-1] - self._times[-2])

    def behind(self, offset: int, now: Ms) -> Behind | None:
        """The age of the record at `offset`. None: nothing was seen yet. Nothing is extrapolated."""
        if not self._ends:
            return None
        if offset >= self._ends[-1]:
            return Behind(0)
        after = bisect_right(self._ends, offset)
        if after == 0:
            return Behind(max(0, now - self._times[0]), is_at_least=True)
        low, high = self._ends[after - 1], self._ends[after]
        since, until = self._times[after - 1], self._times[after]
        written = since + (until - since) * (offset + 1 - low) // (high - low)
        return Behind(max(0, now - written))


class LagRing:
    """The lag of a group, once in each window."""

    __slots__ = ("_first", "_lags")

    def __init__(self) -> None:
        self._lags = array("q")
        self._first = 0  # the number of the first window

    def add(self, at: Ms, lag: int) -> None:
        """Within a window the last figure counts. A window without a figure has that of the one before."""
        number = at // WINDOW_MS
        if not self._lags:
            self._first = number
        last = self._first + len(self._lags) - 1
        if self._lags and number <= last:
            self._lags[-1] = lag
            return
        gap = min(number - last - 1, WINDOWS) if self._lags else 0
        self._lags.extend([self._lags[-1]] * gap if gap > 0 else [])
        self._lags.append(lag)
        surplus = len(self._lags) - WINDOWS
        if surplus > 0:
            del self._lags[:surplus]
        self._first = number - len(self._lags) + 1

    @property
    def series(self) -> tuple[int, ...]:
        """The newest last."""
        return tuple(self._lags)


def never_shrank(series: tuple[int, ...]) -> bool:
    """Whether lag has not become less in ten windows, and is more than at their begin (Burrow's WARN)."""
    last = series[-_TREND - 1 :]
    if len(last) <= _TREND:
        return False
    return last[-1] > last[0] and all(after >= before for before, after in pairwise(last))


def clears_in(series: tuple[int, ...]) -> int | None:
    """How long until nothing is left, at the pace of the last ten windows; None if lag does not shrink."""
    last = series[-_TREND - 1 :]
    if len(last) < 2 or last[-1] >= last[0]:
        return None
    return round(last[-1] / ((last[0] - last[-1]) / ((len(last) - 1) * WINDOW_MS)))


class CommitPace:
    """When a group committed last, and how long it usually takes between two commits of a partition."""

    __slots__ = ("_intervals", "last")

    def __init__(self) -> None:
        self.last: Ms | None = None
        self._intervals: deque[int] = deque(maxlen=_INTERVALS)

    def add(self, at: Ms) -> None:
        """A commit. Those of one request have the same time, and count once."""
        if self.last is not None and at > self.last:
            self._intervals.append(at - self.last)
        if self.last is None or at > self.last:
            self.last = at

    @property
    def usual_ms(self) -> int | None:
        """The median; None if there were too few commits for one."""
        if len(self._intervals) < 2:
            return None
        return sorted(self._intervals)[len(self._intervals) // 2]
