"""Rebalances of `consumer` groups (KIP-848): the coordinator assigns, and only who loses or gains is concerned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.simulate.plan.group import NEVER, PlannedGroup
from equipoise.simulate.plan.scenarios import Scenario, What
from equipoise.simulate.plan.settings import PlanSettings


class ConsumerPlan(PlannedGroup):
    """Targets are computed at most once in `assignment_interval_ms`; each member hears of its own by heartbeat."""

    def __init__(self, settings: PlanSettings, scenario: Scenario, *, is_static: bool) -> None:
        super().__init__(settings, scenario, settings.consumer_heartbeat_interval_ms, is_static=is_static)
        self._last_target = -NEVER
        self._ended = 0.0

    def run(self) -> float:
        """The whole scenario: when it is over."""
        now = 0.0
        while self.next_time() < NEVER:
            now = max(now, self.next_time())
            if not self._happen(now):
                continue
            due = max(now, self._last_target + self.settings.assignment_interval_ms)
            while self.next_time() <= due:
                self._happen(self.next_time())
            self._last_target = due
            self._ended = max(self._ended, self._reconcile(due + self.settings.assign_ms))
        return max(now, self._ended)

    def _happen(self, at: float) -> bool:
        must = False
        while self.coming and self.coming[-1].at <= at:
            happening = self.coming.pop()
            has_changed = self.apply(happening)
            if has_changed and happening.what in (What.START, What.RESUME):
                self.phases[happening.member] = happening.at
                self.costs.heartbeats += 1
            must |= has_changed
        if self.next_expiry() <= at:
            must |= self.expire(at)
        return must

    def _reconcile(self, at: float) -> float:
        """From a new target until all members have their part of it: when that is."""
        self.costs.rebalances += 1
        self.count_beats(at)
        if self.is_empty():
            return at
        wanted, trip = self.new_shares(), self.settings.round_trip_ms
        heard = self.next_beats(at)
        gains, losses = np.maximum(wanted - self.parts, 0), np.maximum(self.parts - wanted, 0)
        revoked = heard + self.settings.callback_ms + trip / 2  # the coordinator knows then
        free = self._free_first(gains, self.loose)
        self.loose_are_read(free, heard)
        moved = gains - free
        taken_at = self._next_of_receivers(moved, revoked, losses)
        given = int(losses.sum())
        if given:
            self.costs.dark_ms += float((moved * taken_at).sum() - (losses * heard).sum())
            longest = float(taken_at[moved > 0].max(initial=0.0) - heard[losses > 0].min(initial=NEVER))
            self.costs.longest_dark_ms = max(self.costs.longest_dark_ms, longest)
        self.costs.moved += given
        self.costs.heartbeats += 2 * int(np.count_nonzero(losses)) + 2 * int(np.count_nonzero(gains))  # and say so
        self.parts = wanted
        concerned = [*heard[(gains > 0) | (losses > 0)], *taken_at[moved > 0]]
        return float(max(concerned, default=at))

    def _free_first(self, gains: NDArray[np.int64], free: int) -> NDArray[np.int64]:
        """Of what each is to get, the part that nobody has: it need not wait for others."""
        before = np.cumsum(gains) - gains
        found: NDArray[np.int64] = np.minimum(gains, np.maximum(free - before, 0))
        return found

    def _next_of_receivers(
        self, moved: NDArray[np.int64], revoked: NDArray[np.float64], losses: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """When those who wait for others have what they wait for: with a heartbeat after it was given up."""
        if not moved.any() or not losses.any():
            return np.zeros(len(moved))
        ready = float((revoked * losses).sum() / losses.sum())
        if self.settings.held:
            return np.full(len(moved), ready + self.settings.round_trip_ms / 2)
        waits = np.mod(self.phases - ready, self.interval_ms)
        found: NDArray[np.float64] = ready + waits + self.settings.round_trip_ms / 2
        return found
