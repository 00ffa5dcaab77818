"""Hunts by seeds: each is drawn, run, and if a rule is broken shortened and told as a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from equipoise.simulate.hunt.kinds import KINDS, Kind
from equipoise.simulate.hunt.run import Run, run, sensible
from equipoise.simulate.hunt.schedule import Schedule, draw
from equipoise.simulate.hunt.shrink import MOST_RUNS, shrink
from equipoise.simulate.scripts.runner import play
from equipoise.simulate.scripts.words import Words
from equipoise.wire.errors import UsageError

LENGTH = 40  # moves of a schedule


class Hunted(NamedTuple):
    """A seed, and what has become of it."""

    schedule: Schedule
    run: Run


def kinds_named(names: Sequence[str]) -> Sequence[Kind]:
    """All kinds, or those of these names. UsageError names an unknown one."""
    known = {one.name: one for one in KINDS}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"there is no kind of group {unknown[0]}; write one of {', '.join(known)}")
    return [known[name] for name in names] or KINDS


def hunt(first_seed: int, seeds: int, kinds: Sequence[Kind] = KINDS, length: int = LENGTH) -> Iterator[Hunted]:
    """One after another; the same seeds, kinds and length give the same runs."""
    for seed in range(first_seed, first_seed + seeds):
        schedule = draw(seed, kinds, length)
        yield Hunted(schedule, run(schedule.lines))


def script_of(found: Hunted, words: Words, most_runs: int = MOST_RUNS) -> str:
    """The shortest schedule that fails so, as a script that can be saved and played."""
    assert found.run.failure is not None
    lines = sensible(shrink(found.schedule.lines, found.run.failure, most_runs))
    head = f"# Seed {found.schedule.seed}, {found.schedule.kind}: {found.run.failure}\n\n"
    script = head + "\n".join(f"> {line}" for line in lines) + "\n"
    return "\n".join(play(script, "script", words)) + "\n"
