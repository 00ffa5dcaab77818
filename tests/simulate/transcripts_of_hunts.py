"""Prints what happens in hunts of given seeds: `python -m tests.simulate.transcripts_of_hunts 0 1 2`.

All that is random in a hunt comes from its seed. The hash of a string does not, unless PYTHONHASHSEED says so; nothing
may depend on it.
"""

from __future__ import annotations

import sys

from equipoise.console import words
from equipoise.console.words import event
from equipoise.simulate.hunt import draw, sensible
from equipoise.simulate.scripts.runner import play
from equipoise.simulate.transcript import Transcript
from tests.simulate.hunting import Hunt

STEPS = 40


def transcript_of(seed: int) -> str:
    """The hunt of a seed, with every record that the coordinator has written."""
    hunt = Hunt(seed, is_rough=bool(seed % 2), is_mixed=seed % 3 == 0, hold_ms=400 if seed % 4 == 0 else 0)
    transcript = Transcript(hunt.world.clock, event)
    hunt.world.observers.append(transcript)
    for _ in range(STEPS):
        hunt.step()
    records = "\n".join(map(repr, hunt.world.coordinator.log))
    return f"{transcript}\n{records}"


def schedule_of(seed: int) -> str:
    """A schedule of `equipoise simulate check`, played."""
    script = "\n".join(f"> {line}" for line in sensible(draw(seed).lines))
    return "\n".join(play(script, "script", words))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"-- seed {argument}")
        print(transcript_of(int(argument)))
        if int(argument) % 3 == 0:
            print(schedule_of(int(argument)))
