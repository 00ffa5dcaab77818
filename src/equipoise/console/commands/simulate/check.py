"""`equipoise simulate check`: hunts for broken rules, by seeds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from secrets import randbelow

import click

from equipoise.console import words
from equipoise.console.edge import REFUSED
from equipoise.console.options import Whole, file_option, json_option
from equipoise.console.output import number, print_json
from equipoise.simulate.hunt import KINDS, LENGTH, Hunted, hunt, kinds_named, script_of

_SEEDS = 100
_MANY_SEEDS = 10**9
_NEW_SEEDS = 10**6  # a seed that people can write down


@click.command()
@click.option("--seeds", metavar="NUMBER", type=Whole(1), help=f"Runs at most; without --minutes, {_SEEDS}.")
@click.option("--minutes", metavar="NUMBER", type=click.FloatRange(0), help="Time at most.")
@click.option("--seed", metavar="NUMBER", type=Whole(0), help="The first seed; by default a new one, which is printed.")
@click.option(
    "--kind", "kinds", metavar="KIND", multiple=True, help=f"Only such groups: {', '.join(one.name for one in KINDS)}."
)
@click.option("--length", metavar="NUMBER", type=Whole(1), default=LENGTH, show_default=True, help="Moves of each run.")
@file_option("--save", help="Where to put the script of a broken rule.")
@json_option("words")
def check(
    *,
    seeds: int | None,
    minutes: float | None,
    seed: int | None,
    kinds: tuple[str, ...],
    length: int,
    save: Path | None,
    as_json: bool,
) -> None:
    """Hunt for broken rules: members and a coordinator under faults of all kinds, drawn from seeds.

    The first run that breaks a rule is shortened and printed as a script for `simulate play`; the status is 1.
    """
    first = randbelow(_NEW_SEEDS) if seed is None else seed
    if not as_json:
        print(f"first seed {first}", flush=True)
    count = seeds or (_SEEDS if minutes is None else _MANY_SEEDS)
    begun, runs, steps, found = time.monotonic(), 0, 0, None
    for hunted in hunt(first, count, kinds_named(kinds), length):
        runs, steps = runs + 1, steps + hunted.run.steps
        if hunted.run.failure is not None:
            found = hunted
            break
        if minutes is not None and time.monotonic() - begun >= minutes * 60:
            break
    _tell(found, {"first_seed": first, "runs": runs, "steps": steps}, save, as_json)


def _tell(found: Hunted | None, counts: dict[str, int], save: Path | None, as_json: bool) -> None:
    """What was found, and how to see it again."""
    script = None if found is None else script_of(found, words)
    if script is not None and save is not None:
        save.write_text(script, encoding="utf-8")
    if as_json:
        broken = None if found is None else {"seed": found.schedule.seed, "rule": found.run.failure, "script": script}
        print_json("simulated", **counts, broken=broken)
    elif found is None:
        print(f"{number(counts['runs'])} runs, {number(counts['steps'])} steps: no rule is broken")
    else:
        print(f"seed {found.schedule.seed} breaks a rule: {found.run.failure}\n\n{script}")
        if save is not None:
            print(f"equipoise simulate play {save} shows it again")
    if found is not None:
        sys.exit(REFUSED)
