"""Hunts for broken rules, with new seeds in every run: `equipoise simulate check` in small."""

from __future__ import annotations

from random import SystemRandom

import pytest

from equipoise.console import words
from equipoise.simulate.hunt import KINDS, Hunted, draw, hunt, run, script_of
from tests.effort import examples

MOST_SEED = 10**9


def fail(found: Hunted) -> str:
    """The script is the message: save it as a test."""
    return f"seed {found.schedule.seed}: {found.run.failure}\n\n{script_of(found, words)}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_new_seeds_break_no_rule(kind: object) -> None:
    """A few of each kind of group; the seeds are in the message of a failure."""
    first = SystemRandom().randrange(MOST_SEED)
    print(f"first seed {first}")
    for found in hunt(first, examples(6), [one for one in KINDS if one is kind]):
        assert found.run.failure is None, fail(found)


def test_the_same_seed_gives_the_same_schedule_and_the_same_run() -> None:
    first, second = (draw(11) for _ in range(2))
    assert first == second != draw(12)
    assert run(first.lines) == run(second.lines)


def test_schedules_have_every_kind_and_every_fault() -> None:
    """Or else the rules would be checked where nothing can break them."""
    schedules = [draw(seed) for seed in range(400)]
    assert {one.kind for one in schedules} == {one.name for one in KINDS}
    said = {line.split()[0] for one in schedules for line in one.moves}
    faults = {"die", "freeze", "late", "clocks", "cut", "partition", "stall", "lose"}
    assert said >= faults | {"crash", "move", "pause", "disk", "fail-writes", "read", "listener", "topic", "close"}


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_ten_thousand_seeds_break_no_rule() -> None:
    for found in hunt(0, 10_000):
        assert found.run.failure is None, fail(found)
