"""What members and coordinator must never do together, checked at every step of a world.

| rule | file |
|---|---|
| a partition has one owner at any instant, also between revoke and assign | owners.py |
| what an application is told adds up | owners.py |
| stale generations and epochs are never accepted; epochs do not go down | fences.py |
| what was answered is durable; the log says what memory has | durability.py |
| no record is skipped, no acknowledged commit is lost, offsets do not go back | positions.py |
| every request is answered, or its connection closed | answers.py |
| when the faults end, the group is Stable within its timeouts, and then writes nothing | liveness.py |

Each raises AssertionError, and says what is wrong.
"""

from __future__ import annotations

from equipoise.simulate.rules.answers import Answers
from equipoise.simulate.rules.durability import Durability
from equipoise.simulate.rules.fences import Fences
from equipoise.simulate.rules.liveness import check_rest
from equipoise.simulate.rules.owners import Owners, ToldDeltas
from equipoise.simulate.rules.positions import Positions
from equipoise.simulate.world import World

__all__ = ["Rules", "check_rest"]


class Rules:
    """All rules, on one world, from now on. `positions` has what its applications have read."""

    def __init__(self, world: World) -> None:
        self.durability = Durability(world)
        self.positions = Positions(world)
        self.answers = Answers(world)
        found = [self.durability, Owners(world), ToldDeltas(world), Fences(), self.positions, self.answers]
        world.observers += found
        world.coordinator.observers += found
