"""Hunts: histories of groups drawn from seeds, and all rules checked at every step.

The state machines are the ones that run behind a broker and inside a consumer. `kinds.py` says which groups there are,
`schedule.py` draws what happens to one, `run.py` runs it, `shrink.py` makes it short, `hunter.py` does all of it.
"""

from equipoise.simulate.hunt.hunter import LENGTH, Hunted, hunt, kinds_named, script_of
from equipoise.simulate.hunt.kinds import KINDS, Kind
from equipoise.simulate.hunt.run import Run, run, sensible
from equipoise.simulate.hunt.schedule import Schedule, draw
from equipoise.simulate.hunt.shrink import shape, shrink

__all__ = [
    "KINDS",
    "LENGTH",
    "Hunted",
    "Kind",
    "Run",
    "Schedule",
    "draw",
    "hunt",
    "kinds_named",
    "run",
    "script_of",
    "sensible",
    "shape",
    "shrink",
]
