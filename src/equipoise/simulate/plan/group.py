"""The members of a planned group, as arrays: who is there, how many partitions each has, when it speaks next."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from equipoise.simulate.plan.costs import Costs
from equipoise.simulate.plan.scenarios import Happening, Scenario, What
from equipoise.simulate.plan.settings import PlanSettings

NEVER = float("inf")


class Place(IntEnum):
    """What a member is at a moment."""

    OUT = 0  # not in the group
    IN = 1
    SILENT = 2  # the coordinator counts it, and it does not speak: dead, paused, or a static one that restarts


class PlannedGroup:
    """What all strategies share. Times are milliseconds from the beginning of the scenario."""

    def __init__(self, settings: PlanSettings, scenario: Scenario, interval_ms: int, *, is_static: bool) -> None:
        self.settings = settings
        self.interval_ms = float(interval_ms)
        self.is_static = is_static
        self.costs = Costs()
        self.coming = list(reversed(scenario.happenings))  # the next one last
        size = scenario.most_members
        self.places: NDArray[np.int8] = np.zeros(size, np.int8)
        self.places[: settings.members] = Place.IN
        self.parts: NDArray[np.int64] = np.zeros(size, np.int64)
        self.parts[: settings.members] = shares(settings.partitions, settings.members)
        phases = np.random.default_rng(settings.seed).random(size)
        self.phases: NDArray[np.float64] = phases * self.interval_ms  # heartbeats come then, and every interval after
        self.expiries: NDArray[np.float64] = np.full(size, NEVER)
        self.dark_since: NDArray[np.float64] = np.full(size, NEVER)  # of a member that has partitions and reads none
        self.loose = 0  # partitions whose owner is out of the group
        self._loose_since = 0.0  # the sum of the times since when
        self._loose_first = NEVER
        self._is_paused: NDArray[np.bool_] = np.zeros(size, bool)
        self.beaten_until = 0.0

    # -- heartbeats

    def next_beats(self, at: float) -> NDArray[np.float64]:
        """When each member hears of what is news at this moment."""
        half = self.settings.round_trip_ms / 2
        if self.settings.held:
            return np.full(len(self.phases), at + half)
        waits = np.mod(self.phases - at, self.interval_ms)
        beats: NDArray[np.float64] = at + waits + half
        return beats

    def beat_from(self, at: float) -> None:
        """All heartbeats begin anew, as after a rebalance, unless each client has a beat of its own."""
        if not self.settings.spread:
            self.phases[:] = at

    def count_beats(self, until: float) -> None:
        """Those of the members that speak."""
        if until > self.beaten_until:
            speaking = int(np.count_nonzero(self.places == Place.IN))
            self.costs.heartbeats += speaking * (until - self.beaten_until) / self.interval_ms
            self.beaten_until = until

    # -- what happens to members

    def silence(self, one: int, at: float) -> None:
        """It speaks no more, and nobody reads its partitions; its session goes on from its last heartbeat."""
        self.places[one] = Place.SILENT
        last_beat = at - float(np.mod(at - self.phases[one], self.interval_ms))
        if self.settings.held:
            last_beat = at
        self.expiries[one] = last_beat + self.settings.session_timeout_ms
        self.dark_since[one] = at

    def leave(self, one: int, at: float) -> None:
        """It is out of the group; its partitions wait for others."""
        self.loosen(int(self.parts[one]), min(float(self.dark_since[one]), at))
        self.places[one] = Place.OUT
        self.expiries[one], self.dark_since[one], self.parts[one] = NEVER, NEVER, 0

    def loosen(self, parts: int, since: float) -> None:
        """So many partitions have nobody, and are not read since then."""
        if parts:
            self.loose += parts
            self._loose_since += parts * since
            self._loose_first = min(self._loose_first, since)

    def is_empty(self) -> bool:
        """Whether the coordinator counts no member: what is loose waits for the next that comes."""
        return not bool(np.any(self.places != Place.OUT))

    def resume(self, one: int, at: float) -> None:
        """It goes on where it was: static and back in time, or the pause was short."""
        self.places[one] = Place.IN
        self.expiries[one] = NEVER
        self.costs.is_dark(float(self.parts[one]), at - self.dark_since[one])
        self.dark_since[one] = NEVER

    def next_time(self) -> float:
        """When something happens next."""
        return min(self.coming[-1].at if self.coming else NEVER, self.next_expiry())

    def next_expiry(self) -> float:
        """When the next session ends."""
        return float(self.expiries.min())

    def apply(self, happening: Happening) -> bool:
        """Whether the group has other members now, and must rebalance."""
        at, what, one = happening
        self.count_beats(at)
        if what is What.CLOSE and not self.is_static:
            self.costs.leaves += 1
            self.leave(one, at)
            return True
        if what in (What.CLOSE, What.CRASH, What.PAUSE):
            self.silence(one, at)
            self._is_paused[one] = what is What.PAUSE
            if what is What.CRASH:
                self._repeat(one)
            return False
        if self.places[one] == Place.SILENT:
            self._come_back(one, at)
            return False
        self.places[one] = Place.IN
        return True

    def _come_back(self, one: int, at: float) -> None:
        trips = 1
        if not self._is_paused[one]:  # a static member: a new process joins, and gets its old share
            self.costs.joins += 1
            self.costs.syncs += 1
            trips = 3
        self.resume(one, at + trips * self.settings.round_trip_ms)

    def _repeat(self, one: int) -> None:
        self.costs.repeated_ms += float(self.parts[one]) * self.settings.commit_loss_ms

    def expire(self, at: float) -> bool:
        """Sessions that are over. Who was only paused has processed on since its last commit, for nothing."""
        self.count_beats(at)
        over = np.flatnonzero(self.expiries <= at)
        for one in over:
            if self._is_paused[one]:
                self._repeat(int(one))
            self.leave(int(one), at)
        return len(over) > 0

    # -- shares

    def loose_are_read(self, receivers: NDArray[np.int64], at: NDArray[np.float64]) -> None:
        """What the members that are gone had is read again: so many partitions by each receiver, each from then on."""
        if not self.loose:
            return
        self.costs.dark_ms += float((receivers * at).sum()) - self._loose_since
        latest = float(at[receivers > 0].max(initial=0.0))
        self.costs.longest_dark_ms = max(self.costs.longest_dark_ms, latest - self._loose_first)
        self.costs.moved += self.loose
        self.loose, self._loose_since, self._loose_first = 0, 0.0, NEVER

    def new_shares(self) -> NDArray[np.int64]:
        """As even as can be, among all that the coordinator counts; who has more keeps the odd ones."""
        counted = np.flatnonzero(self.places != Place.OUT)
        found = np.zeros(len(self.parts), np.int64)
        order = counted[np.argsort(-self.parts[counted], kind="stable")]
        found[order] = shares(self.settings.partitions, len(counted))
        return found


def shares(partitions: int, members: int) -> NDArray[np.int64]:
    """As even as can be, the larger ones first."""
    if members == 0:
        return np.zeros(0, np.int64)
    least, more = divmod(partitions, members)
    found = np.full(members, least, np.int64)
    found[:more] += 1
    return found
