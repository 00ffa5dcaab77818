"""The shortest script that still shows a difference: parts are left out, larger ones first, as long as it stays."""

from __future__ import annotations

from dataclasses import replace

from proving.conformance.play import Played, play
from proving.conformance.worlds import World

_PLAYS = 120


def shrink(played: Played, world: World) -> Played:
    best, left = played, _PLAYS
    size = max(len(best.script.steps) // 2, 1)
    while size and left > 0:
        start = 0
        while start < len(best.script.steps) and left > 0:
            shorter = _without(best, start, size, world)
            left -= 1
            if shorter is None:
                start += size
            else:
                best = shorter
        size //= 2
    return best


def _without(played: Played, start: int, size: int, world: World) -> Played | None:
    steps = [*played.script.steps[:start], *played.script.steps[start + size :]]
    shorter = play(replace(played.script, steps=steps), world) if steps else None
    return shorter if shorter is not None and shorter.different else None
