"""The best that can be had, by looking at every distribution of loads: sum of squares first, then partitions that are
not in their owner's rack, then moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.assignors.cases import Group, Score

Loads = tuple[int, ...]
Cost = tuple[int, int]  # far, moved


def optimum(group: Group) -> Score:
    fewest: dict[Loads, Cost] = {(0,) * len(group.topics): (0, 0)}
    for topic, number in group.partitions():
        costs = {
            place: (int(group.is_far(name, topic, number)), int(group.owned.get((topic, number)) != name))
            for place, (name, topics) in enumerate(group.topics.items())
            if topic in topics
        }
        if costs:
            fewest = _one_more(fewest, costs)
    return min((_squares(loads), *cost) for loads, cost in fewest.items())


def _one_more(fewest: Mapping[Loads, Cost], costs: Mapping[int, Cost]) -> dict[Loads, Cost]:
    result: dict[Loads, Cost] = {}
    for loads, (far, moved) in fewest.items():
        for place, cost in costs.items():
            after = (*loads[:place], loads[place] + 1, *loads[place + 1 :])
            total = far + cost[0], moved + cost[1]
            result[after] = min(total, result.get(after, total))
    return result


def _squares(loads: Iterable[int]) -> int:
    return sum(load * load for load in loads)
