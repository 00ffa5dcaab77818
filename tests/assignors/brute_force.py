"""The best that can be had, by looking at every distribution of loads: sum of squares first, then moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.assignors import Cluster, Members

Partition = tuple[str, int]


def optimum(cluster: Cluster, members: Members, owned: Mapping[Partition, str]) -> tuple[int, int]:
    order = list(members)
    fewest: dict[tuple[int, ...], int] = {(0,) * len(order): 0}  # moves, by the loads of members
    for topic in cluster:
        places = [place for place, name in enumerate(order) if topic in members[name].subscription.topics]
        for number in range(cluster[topic].partitions if places else 0):
            fewest = _one_more(fewest, places, owned.get((topic, number)), order)
    return min((sum(load * load for load in loads), moves) for loads, moves in fewest.items())


def _one_more(
    fewest: Mapping[tuple[int, ...], int], places: Sequence[int], owner: str | None, order: Sequence[str]
) -> dict[tuple[int, ...], int]:
    result: dict[tuple[int, ...], int] = {}
    for loads, moves in fewest.items():
        for place in places:
            after = (*loads[:place], loads[place] + 1, *loads[place + 1 :])
            cost = moves + (order[place] != owner)
            result[after] = min(cost, result.get(after, cost))
    return result
