"""The whole comparison: all scripts in their worlds, and random ones until so many steps have been compared."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from proving.conformance.consumer.scripts import all_scripts as consumer_scripts
from proving.conformance.listed import CLASSIC
from proving.conformance.play import Played, play, play_across_restart, play_drawn
from proving.conformance.report import Summary
from proving.conformance.scripts import all_scripts
from proving.conformance.shrink import shrink
from proving.conformance.steps import Script
from proving.conformance.worlds import CONSUMER_SETTINGS, SETTINGS, World, open_world

STEPS = 2000
_WORLDS_AT_A_TIME = 2
_WAITING = 24  # scripts at a time that mostly wait for timers
_BUSY = 4


def run(seed: str | None = None, steps: int = STEPS, only: str = "", protocol: str = CLASSIC) -> Summary:
    """`only`: the scripts with this in their name; `seed`: of the random scripts, a new one if none is given;
    `protocol`: the groups that they are about."""
    seed = seed or secrets.token_hex(4)
    is_classic = protocol == CLASSIC
    scripts = [script for script in (all_scripts() if is_classic else consumer_scripts()) if only in str(script)]

    def in_world(name: str) -> list[Played]:
        own = [script for script in scripts if script.world == name]
        wanted = steps if name in ("main", "consumer") else 0
        return _in_world(name, own, seed, wanted) if own or wanted else []

    with ThreadPoolExecutor(_WORLDS_AT_A_TIME) as pool:
        played = [one for some in pool.map(in_world, SETTINGS if is_classic else CONSUMER_SETTINGS) for one in some]
    return Summary(played, seed, is_whole=not only, protocol=protocol)


def _in_world(name: str, scripts: Sequence[Script], seed: str, steps: int) -> list[Played]:
    with open_world(name) as world, ThreadPoolExecutor(_BUSY if world.is_busy else _WAITING) as pool:
        if world.is_restarted:
            return play_across_restart(scripts, world)
        played = decide(list(pool.map(lambda script: _without_pages(play(script, world)), scripts)), world)
        return played + _drawn(world, pool, seed, steps)


def decide(played: Sequence[Played], world: World) -> list[Played]:
    """Side by side scripts take the time that the timers of others have. Those that say nothing are played again, one
    by one."""
    return [_without_pages(play(one.script, world)) if one.again else one for one in played]


def _drawn(world: World, pool: ThreadPoolExecutor, seed: str, steps: int) -> list[Played]:
    played: list[Played] = []
    names = (f"{seed}-{number}" for number in itertools.count(1))
    while sum(one.steps for one in played) < steps:
        some = list(itertools.islice(names, _BUSY * 2))
        played += pool.map(lambda name: _without_pages(play_drawn(name, world)), some)
    return [shrink(one, world) if one.different else one for one in played]


def _without_pages(played: Played) -> Played:
    """Nobody reads them where all is equal, and together they are large."""
    if not played.different:
        played.pages.clear()
    return played
