"""`python -m bench simulate`: steps a minute of hunts in simulated worlds, on one core, and a plan of a large group."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from bench import planning
from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.simulate.hunt import hunt
from equipoise.simulate.plan import PlanSettings, plan

STRATEGIES = ("eager", "cooperative", "static", "consumer")
NOTES = (
    "A step is an input of a state machine: a request or a timer of the coordinator; an answer, a timer or a call of "
    "the application, of a member. Runs are those of `equipoise simulate check`, with every rule checked after each "
    "step. CPU time of one process, one core.",
    "The plan: a rolling restart under four strategies, one after another, CPU time.",
)


class Size(NamedTuple):
    rounds: int
    seeds: int
    members: int


FULL, QUICK = Size(3, 150, 10_000), Size(1, 10, 100)
FIGURES = (
    Figure("steps", "steps a minute", "/min", aim=1_000_000),
    Figure("runs", "runs a minute", "/min"),
    Figure("plan", "a plan of 10,000 members x 100,000 partitions", "s", aim=60),
)


def run_bench(*, as_json: bool, quick: bool, study: Path | None) -> None:
    check_machine("simulate", *(["matplotlib"] if study else []))
    if study is not None:
        planning.print_study(study)
        return
    size, begun = QUICK if quick else FULL, time.monotonic()
    results = Results("simulate", FIGURES, NOTES, seeds=size.seeds, members=size.members)
    with progress(2 * size.rounds) as advance:
        for number in range(size.rounds):
            _hunts(results, size, first=number * size.seeds)
            advance()
            _plans(results, size)
            advance()
    results.print(as_json, time.monotonic() - begun)


def _hunts(results: Results, size: Size, first: int) -> None:
    begun = time.process_time()
    runs = list(hunt(first, size.seeds))
    assert not any(one.run.failure for one in runs)
    minutes = (time.process_time() - begun) / 60
    results.add("steps", sum(one.run.steps for one in runs) / minutes)
    results.add("runs", len(runs) / minutes)


def _plans(results: Results, size: Size) -> None:
    begun = time.process_time()
    settings = PlanSettings(members=size.members, partitions=10 * size.members)
    assert len(list(plan("rolling-restart", STRATEGIES, settings))) == len(STRATEGIES)
    results.add("plan", time.process_time() - begun)
