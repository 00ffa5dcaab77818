"""One budget for a turn of the loop: what is read, what groups do, and the slice of those that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from equipoise.broker.net import turns
from equipoise.broker.net.turns import SLICE_S, Turns


class Loop:
    """A loop whose turns a test takes, on a clock that only work moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self._ready: deque[Callable[[], None]] = deque()
        self.turns = Turns(cast(asyncio.AbstractEventLoop, self))
        monkeypatch.setattr(turns, "monotonic", lambda: self.now)
        monkeypatch.setattr(turns, "thread_time", lambda: self.now)

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._ready.append(lambda: callback(*args))

    def turn(self) -> None:
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def work(self, done: list[int], number: int, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            done.append(number)

        return run


def queued(loop: Loop, count: int, seconds: float) -> list[int]:
    """The numbers of what was done, in order, as turns go on."""
    done: list[int] = []
    for number in range(count):
        loop.turns.add(loop.work(done, number, seconds))
    return done


def test_a_slice_ends_in_time_and_the_next_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    done, after = queued(loop, 10, 0.0015), []
    while len(done) < 10:
        loop.turn()
        after.append(len(done))
    assert (after, done) == ([3, 6, 9, 10], list(range(10)))


def test_work_that_comes_back_has_one_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were its turn asked for twice, then four times, and so on, nothing would be read between them."""
    loop, done = Loop(monkeypatch), list[int]()

    def goes_on() -> None:
        loop.work(done, len(done), SLICE_S)()
        loop.turns.add(goes_on)
        loop.turns.spend(0.001)

    loop.turns.add(goes_on)
    for number in range(1, 9):
        loop.turn()
        assert len(done) == number


def test_what_was_done_beside_the_queue_makes_the_slice_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has 6 ms in all, and 2 ms for the slice in any case. The next turn begins with nothing spent."""
    loop = Loop(monkeypatch)
    done = queued(loop, 20, 0.00051)
    loop.turns.spend(0.003)
    loop.turn()
    assert len(done) == 6
    loop.turns.spend(0.050)
    loop.turn()
    assert len(done) == 10
    loop.turn()
    assert done == list(range(18))


def test_time_in_which_the_process_does_not_run_makes_no_slice_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    done = queued(loop, 4, 0.05)
    monkeypatch.setattr(turns, "thread_time", lambda: 0.0)
    loop.turn()
    assert done == [0, 1, 2, 3]


def test_a_turn_is_busy_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(monkeypatch)
    loop.turns.spend(0.002)
    assert not loop.turns.is_busy
    loop.turns.spend(0.002)
    assert loop.turns.is_busy
    loop.turn()
    assert not loop.turns.is_busy


def test_long_work_goes_on_to_the_end_of_its_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of one it has a whole slice; behind a turn that was long 2 ms, and at the end of a slice one."""
    loop = Loop(monkeypatch)
    assert loop.turns.piece_ends() == loop.now + SLICE_S
    ends: list[float] = []
    loop.turns.add(lambda: ends.append(loop.turns.piece_ends() - loop.now))
    loop.turn()
    loop.turns.spend(0.050)
    loop.turns.add(loop.work([], 0, 0.0019))
    loop.turns.add(lambda: ends.append(loop.turns.piece_ends() - loop.now))
    loop.turn()
    loop.turns.spend(0.050)
    loop.turns.add(lambda: ends.append(loop.turns.piece_ends() - loop.now))
    loop.turn()
    assert ends == pytest.approx([SLICE_S, 0.001, 0.002])


def test_who_rests_reads_on_in_later_turns_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, awake = Loop(monkeypatch), list[int]()
    assert not loop.turns.read(1)
    assert loop.turns.read(1 << 22)
    for number in range(6):
        loop.turns.rest(lambda number=number: awake.append(number))  # type: ignore[misc]
    loop.turn()
    assert awake == [0, 1, 2, 3]
    assert loop.turns.read(1), "new ones stand behind those that wait"
    loop.turn()
    assert awake == [0, 1, 2, 3, 4, 5]
