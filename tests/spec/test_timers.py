"""Timers: deadlines as values, against a plain dictionary."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.coordinator import timers as timers_module
from equipoise.coordinator.timers import K, TimerKey, TimerKind, Timers
from tests.effort import examples


def due(timers: Timers[K], now: int) -> list[K]:
    found = []
    while (key := timers.pop_due(now)) is not None:
        found.append(key)
    return found


def test_a_key_fires_once_when_its_deadline_has_come() -> None:
    timers = Timers[str]()
    timers.arm("k", 10)
    assert (timers.next_deadline(), timers.deadline("k")) == (10, 10)
    assert due(timers, 9) == []
    assert due(timers, 10) == ["k"]
    assert (due(timers, 99), timers.deadline("k")) == ([], None)


def test_armed_again_for_later_it_fires_then() -> None:
    timers = Timers[str]()
    timers.arm("k", 10)
    timers.arm("k", 20)
    assert due(timers, 19) == []
    assert due(timers, 20) == ["k"]


def test_armed_again_for_earlier_it_fires_then_and_not_again() -> None:
    timers = Timers[str]()
    timers.arm("k", 20)
    timers.arm("k", 10)
    assert due(timers, 10) == ["k"]
    assert due(timers, 30) == []


def test_what_is_cancelled_does_not_fire_until_it_is_armed_again() -> None:
    timers = Timers[str]()
    timers.arm("k", 10)
    timers.cancel("k")
    timers.cancel("never armed")
    assert due(timers, 10) == []
    timers.arm("k", 30)
    timers.cancel("k")
    timers.arm("k", 20)
    assert due(timers, 20) == ["k"]


def test_a_deadline_in_the_past_is_due_at_once() -> None:
    timers = Timers[str]()
    timers.arm("k", -5)
    assert due(timers, 0) == ["k"]


def test_equal_deadlines_fire_in_the_order_they_were_armed() -> None:
    timers = Timers[str]()
    for key in "bca":
        timers.arm(key, 10)
    assert due(timers, 10) == ["b", "c", "a"]


def test_earlier_deadlines_fire_first_also_when_they_are_late() -> None:
    timers = Timers[str]()
    timers.arm("late", 20)
    timers.arm("early", 10)
    assert due(timers, 50) == ["early", "late"]


def test_cleared_it_has_nothing() -> None:
    timers = Timers[str]()
    timers.arm("k", 10)
    timers.clear()
    assert (timers.next_deadline(), due(timers, 99)) == (None, [])
    timers.arm("k", 20)
    assert due(timers, 20) == ["k"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), st.sampled_from("abc"), st.integers(-5, 30)),
        st.tuples(st.just("cancel"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(0, 10)),
    ),
    max_size=40,
)


@settings(max_examples=examples(300), deadline=None)
@given(STEPS, st.sampled_from([0, 1024]))
def test_as_a_dictionary_would(steps: list[tuple[str, str, int]], spare: int) -> None:
    """Also where the heap forgets cancelled keys again and again."""
    with mock.patch.object(timers_module, "_SPARE", spare):
        compare_with_a_dictionary(steps)


def compare_with_a_dictionary(steps: list[tuple[str, str, int]]) -> None:
    timers, model, now = Timers[str](), dict[str, int](), 0
    for what, key, number in steps:
        if what == "arm":
            timers.arm(key, now + number)
            model[key] = now + number
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now += number
            expected = {key for key, deadline in model.items() if deadline <= now}
            fired = due(timers, now)
            assert sorted(map(str, fired)) == sorted(expected)
            model = {key: deadline for key, deadline in model.items() if key not in expected}
        if model:
            deadline = timers.next_deadline()
            assert deadline is not None
            assert deadline <= min(model.values())  # never later than needed
        assert {key: timers.deadline(key) for key in model} == model


def test_the_timers_of_a_member_do_not_meet() -> None:
    """A key has a kind: equal ids alone do not make it equal."""
    session, hold = TimerKey(TimerKind.SESSION, "g", "m"), TimerKey(TimerKind.HOLD, "g", "m")
    timers = Timers[TimerKey]()
    timers.arm(session, 10)
    timers.arm(hold, 20)
    timers.cancel(hold)
    assert (timers.deadline(session), timers.deadline(hold)) == (10, None)
    assert due(timers, 99) == [TimerKey(TimerKind.SESSION, "g", "m")]


def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    timers = Timers[str]()
    timers.arm("stays", 2_000_000)
    for number in range(100_000):
        timers.arm(f"member {number}", 1_000_000 + number)
        timers.cancel(f"member {number}")
    assert len(repr(timers)) < 200_000
    timers.arm("member 1", 1_500_000)
    assert due(timers, 1_500_000) == ["member 1"]
    assert due(timers, 2_000_000) == ["stays"]
