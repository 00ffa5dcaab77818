"""Rebalances of classic groups: eager ones stop everybody, cooperative ones take two rounds to move a partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.simulate.plan.group import NEVER, Place, PlannedGroup
from equipoise.simulate.plan.scenarios import Happening, Scenario, What
from equipoise.simulate.plan.settings import PlanSettings


class ClassicPlan(PlannedGroup):
    """A group with a leader that assigns (KIP-62), perhaps cooperatively (KIP-429), perhaps static (KIP-345)."""

    def __init__(self, settings: PlanSettings, scenario: Scenario, *, is_cooperative: bool, is_static: bool) -> None:
        super().__init__(settings, scenario, settings.heartbeat_interval_ms, is_static=is_static)
        self.is_cooperative = is_cooperative
        self.beat_from(float(self.phases[0]))  # the last rebalance has made all members begin at one moment

    def run(self) -> float:
        """The whole scenario: when it is over."""
        now = 0.0
        while self.coming or self.next_expiry() < NEVER:
            now = max(now, self.next_time())
            if self._happen(now):
                now = self._rebalance(now)
        return now

    def _happen(self, at: float) -> bool:
        """All that happens up to this moment: whether the group must rebalance."""
        must = False
        while self.coming and self.coming[-1].at <= at:
            happening = self.coming.pop()
            must |= self.apply(happening)
            self.costs.joins += self._is_new(happening)
        if self.next_expiry() <= at:
            must |= self.expire(at)
        return must

    def _is_new(self, happening: Happening) -> bool:
        """Its first JoinGroup is answered with a member id, unless it is static (KIP-394)."""
        is_coming = happening.what in (What.START, What.RESUME)
        return is_coming and not self.is_static and bool(self.places[happening.member] == Place.IN)

    # -- one rebalance

    def _rebalance(self, begun: float) -> float:
        """From its cause to rest: a second round if cooperative members have revoked anything."""
        stable = self._round(begun, self.next_beats(begun))
        while self.is_cooperative and self._revoked > 0:
            # Who has given up joins again; the others hear of it with their next heartbeat.
            again = stable + self.settings.callback_ms
            is_apart = self.settings.held or self.settings.spread
            heard = self.next_beats(again) if is_apart else np.full(len(self.phases), stable + self.interval_ms)
            self._revoked_at = stable
            stable = self._round(again, heard)
        return stable

    _revoked = 0  # partitions that nobody has after a cooperative round
    _revoked_at = 0.0

    def _round(self, begun: float, heard: NDArray[np.float64]) -> float:
        settings = self.settings
        are_in = self.places == Place.IN
        ended = self._join_phase(begun, heard)
        now_in = self.places == Place.IN
        stable = ended + settings.round_trip_ms * 1.5 + settings.assign_ms
        self.costs.rebalances += 1
        self.costs.joins += int(np.count_nonzero(now_in))
        self.costs.syncs += int(np.count_nonzero(now_in))
        self._account(are_in & now_in, heard, stable)
        self._assign(stable)
        self.beat_from(stable)
        self.count_beats(stable)
        return stable

    def _join_phase(self, begun: float, heard: NDArray[np.float64]) -> float:
        """Until all that the coordinator counts have joined, or are gone. Others come and go meanwhile."""
        give_up = 0.0 if self.is_cooperative else self.settings.callback_ms
        joins = heard + give_up + self.settings.round_trip_ms / 2
        while True:
            waiting = joins[self.places == Place.IN].max(initial=begun)
            silent = self.expiries[self.places == Place.SILENT].max(initial=0.0)
            end = max(float(waiting), float(silent))
            if self.next_time() > end:
                return end
            at = max(self.next_time(), begun)
            before = self.places.copy()
            self._happen(at)
            joins[(before != Place.IN) & (self.places == Place.IN)] = at + self.settings.round_trip_ms

    def _account(self, stayed: NDArray[np.bool_], heard: NDArray[np.float64], stable: float) -> None:
        """Partitions that nobody has read: of all, if members are eager; else of those who are gone."""
        if not self.is_cooperative:
            darkness = stable - heard[stayed]
            parts = self.parts[stayed]
            self.costs.dark_ms += float((parts * darkness).sum())
            self.costs.longest_dark_ms = max(self.costs.longest_dark_ms, float(darkness[parts > 0].max(initial=0.0)))
        if self._revoked:
            self.costs.is_dark(self._revoked, stable - self._revoked_at)
            self.costs.moved += self._revoked

    def _assign(self, stable: float) -> None:
        """New shares. What a cooperative member must give up, nobody has until the next round."""
        if self.is_empty():
            self.loosen(self._revoked, stable)
            self._revoked = 0
            return
        wanted, free = self.new_shares(), self.loose + self._revoked
        given_up = int(np.maximum(self.parts - wanted, 0).sum())
        kept = np.minimum(self.parts, wanted)
        room = wanted - kept
        filled = np.minimum(room, np.maximum(free - (np.cumsum(room) - room), 0))
        of_the_gone = np.zeros(len(room), np.int64)
        of_the_gone[0] = self.loose
        self.loose_are_read(of_the_gone, np.full(len(room), stable))
        if self.is_cooperative:
            self.parts, self._revoked = kept + filled, given_up
        else:
            self.parts = wanted
            self.costs.moved += given_up
