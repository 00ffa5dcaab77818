"""Virtual time. It stands still until `advance` moves it, and it stops at everything that is due on the way."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

NEVER = 2**63 - 1
MOST_AT_ONCE = 20_000  # actions in one millisecond: more are a circle


class Timed(Protocol):
    """A state machine with deadlines of its own."""

    def next_deadline(self) -> int | None:
        """When `tick` has work next; None if nothing is due."""

    def tick(self) -> None:
        """Does the work that is due now."""


class Time(Protocol):
    """What a process sees of time: its own clock."""

    @property
    def now(self) -> int:
        """Milliseconds, by this clock."""

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Plans an action for a time of this clock."""

    def after(self, ms: int, action: Callable[[], None]) -> None:
        """Plans an action for so many milliseconds of this clock from now."""


class Drifting:
    """The clock of a process that is `ahead_ms` and runs `rate` times as fast as the true one."""

    def __init__(self, clock: Clock, *, rate: float = 1.0, ahead_ms: int = 0) -> None:
        self._clock = clock
        self._rate = rate
        self._ahead_ms = ahead_ms

    @property
    def now(self) -> int:
        """Never less than before."""
        return int(self._clock.now * self._rate) + self._ahead_ms

    def at(self, when: int, action: Callable[[], None]) -> None:
        """At the first true millisecond in which this clock has got there."""
        true = int((when - self._ahead_ms) / self._rate)
        while int(true * self._rate) + self._ahead_ms < when:
            true += 1
        self._clock.at(true, action)

    def after(self, ms: int, action: Callable[[], None]) -> None:
        """For so many milliseconds of this clock from now."""
        self.at(self.now + ms, action)


class Clock:
    """Milliseconds, from `now` on. Same actions, same order: nothing here depends on the machine's time.

    Of what is due in one millisecond, actions come first, one at a time and in the order in which they were planned.
    After each of them the deadlines of the state machines are looked at.
    """

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self.after_each: Callable[[], None] = lambda: None  # for checks that must hold at every moment
        self._machines: list[Timed] = []
        self._actions: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def follow(self, machine: Timed) -> None:
        """From here on `advance` ticks this machine at its deadlines."""
        self._machines.append(machine)

    def forget(self, machine: Timed) -> None:
        """The machine is gone."""
        self._machines = [one for one in self._machines if one is not machine]

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Plans an action; a time in the past is now."""
        heapq.heappush(self._actions, (max(when, self.now), next(self._order), action))

    def after(self, ms: int, action: Callable[[], None]) -> None:
        """Plans an action for so many milliseconds from now."""
        self.at(self.now + ms, action)

    def next_event(self) -> int:
        """When something happens next; NEVER if nothing is planned."""
        planned = self._actions[0][0] if self._actions else NEVER
        deadlines = (machine.next_deadline() for machine in self._machines)
        return max(self.now, min([planned, *(due for due in deadlines if due is not None)]))

    def advance(self, ms: int) -> None:
        """Time goes on, and everything that is due happens at its own time."""
        end, at_once = self.now + ms, 0
        while (due := self.next_event()) <= end:
            at_once = at_once + 1 if due == self.now else 0
            assert at_once < MOST_AT_ONCE, f"time stands still at {due}: somebody is never done"
            self.now = due
            if self._actions and self._actions[0][0] <= self.now:
                heapq.heappop(self._actions)[2]()
            for machine in self._machines:
                deadline = machine.next_deadline()
                if deadline is not None and deadline <= self.now:
                    machine.tick()
            self.after_each()
        self.now = end
