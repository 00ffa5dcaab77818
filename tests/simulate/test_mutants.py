"""The hunts find deliberate bugs: each within so many seeds, and the script of one plays."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from equipoise.console import words
from equipoise.simulate.hunt import Hunted, hunt, kinds_named, run, script_of
from equipoise.simulate.scripts.runner import BROKEN, play
from tests.simulate.mutants import MUTANTS, Mutant

MOST_SEEDS = 150


def found(mutant: Mutant, first: int = 0) -> Hunted | None:
    hunts = hunt(first, MOST_SEEDS, kinds_named(mutant.kinds))
    return next((one for one in hunts if one.run.failure is not None), None)


def check(mutant: Mutant, patch: pytest.MonkeyPatch, first: int = 0) -> Hunted:
    mutant.apply(patch)
    caught = found(mutant, first)
    assert caught is not None, f"nobody has noticed {mutant.name} in {MOST_SEEDS} seeds"
    assert mutant.wrong in str(caught.run.failure)
    return caught


def of_today() -> list[Mutant]:
    """A few, others every day: all are found in a week."""
    day = datetime.now(UTC).toordinal()
    return [MUTANTS[(day * 4 + number) % len(MUTANTS)] for number in range(4)]


def test_there_are_twenty_of_them() -> None:
    assert len({one.name for one in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("mutant", of_today(), ids=lambda mutant: mutant.name)
def test_a_deliberate_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    caught = check(mutant, monkeypatch)
    monkeypatch.undo()
    assert run(caught.schedule.lines).failure is None, "without the bug the same run is clean"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(20_000, 100_000, 20_000))
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_deliberate_bug_is_found(mutant: Mutant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only by the seeds that `make test` has."""
    check(mutant, monkeypatch, first)


def test_a_failing_run_is_shortened_and_its_script_shows_the_failure_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (mutant,) = (one for one in MUTANTS if one.name == "hand_over_in_one_round")
    caught = check(mutant, monkeypatch)
    script = script_of(caught, words, most_runs=150)
    commands = [line for line in script.splitlines() if line.startswith(">")]
    assert len(commands) < 20 < len(caught.schedule.lines)
    assert "is owned by" in script.splitlines()[-1]
    assert script.splitlines()[-1].startswith(BROKEN)
    assert "\n".join(play(script, "again", words)) + "\n" == script
    monkeypatch.undo()
    assert BROKEN not in "\n".join(play(script, "mended", words))
