"""Virtual time: when things happen, and in which order."""

from __future__ import annotations

from equipoise.simulate import Clock
from equipoise.simulate.clock import NEVER


class Alarm:
    """A machine with deadlines."""

    def __init__(self, clock: Clock, *deadlines: int) -> None:
        self.clock = clock
        self.deadlines = list(deadlines)
        self.fired: list[int] = []

    def next_deadline(self) -> int | None:
        return self.deadlines[0] if self.deadlines else None

    def tick(self) -> None:
        self.deadlines.pop(0)
        self.fired.append(self.clock.now)


def test_time_stands_still_unless_it_is_moved() -> None:
    clock = Clock(5)
    clock.after(3, lambda: None)
    assert (clock.now, clock.next_event()) == (5, 8)
    clock.advance(0)
    assert clock.now == 5
    clock.advance(10)
    assert (clock.now, clock.next_event()) == (15, NEVER)


def test_each_action_happens_at_its_own_time_and_in_the_order_of_planning() -> None:
    clock = Clock()
    seen: list[tuple[str, int]] = []
    for name, at in (("late", 9), ("first", 4), ("second", 4), ("past", -1)):
        clock.at(at, lambda name=name: seen.append((name, clock.now)))  # type: ignore[misc]
    clock.advance(10)
    assert seen == [("past", 0), ("first", 4), ("second", 4), ("late", 9)]


def test_what_an_action_plans_for_now_happens_now() -> None:
    clock = Clock()
    seen: list[int] = []
    clock.at(4, lambda: clock.after(0, lambda: seen.append(clock.now)))
    clock.advance(4)
    assert seen == [4]


def test_machines_tick_at_their_deadlines_behind_one_action() -> None:
    clock = Clock()
    alarm = Alarm(clock, 3, 7, 20)
    clock.follow(alarm)
    seen: list[list[int]] = []
    clock.at(7, lambda: seen.append(list(alarm.fired)))
    clock.at(7, lambda: seen.append(list(alarm.fired)))
    clock.advance(10)
    assert alarm.fired == [3, 7]
    assert seen == [[3], [3, 7]]


def test_checks_run_after_each_moment() -> None:
    clock = Clock()
    moments: list[int] = []
    clock.after_each = lambda: moments.append(clock.now)
    clock.at(2, lambda: None)
    clock.follow(Alarm(clock, 5))
    clock.advance(9)
    assert moments == [2, 5]
