"""The load of members with different subscriptions. A topic with few subscribers may load them more than others, in
every assignment. Classes of members fall into layers, from the most loaded down. Inside a layer loads differ by one
at most. This is the best balance: no other has a smaller sum of squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.assignors.sticky_core.flow import FlowNetwork

_SOURCE, _SINK = 0, 1


class Demand(NamedTuple):
    """Bundles are topics with the same subscribers. Classes are members with the same subscription."""

    supply: Sequence[int]  # partitions of each bundle
    size: Sequence[int]  # members of each class
    classes: Sequence[Sequence[int]]  # that subscribe to each bundle


class Layer(NamedTuple):
    """Each member of the layer has `least` partitions, `larger` of them have one more."""

    bundles: list[int]
    classes: list[int]
    least: int
    larger: int


def layers(demand: Demand) -> list[Layer]:
    """Returns the layers. Layers with equal loads are merged: partitions can move between them."""
    found: dict[tuple[int, bool], Layer] = {}
    pending = [(list(range(len(demand.supply))), list(range(len(demand.size))))]
    while pending:
        bundles, classes = pending.pop()
        parts = _split(demand, bundles, classes)
        if parts:
            pending += parts  # both smaller: there are no more layers than classes
            continue
        partitions, members = _load(demand, bundles, classes)
        least, larger = divmod(partitions, members)
        key = least, larger > 0
        known = found.get(key, Layer([], [], least, 0))
        found[key] = Layer(known.bundles + bundles, known.classes + classes, least, known.larger + larger)
    return list(found.values())


def _load(demand: Demand, bundles: list[int], classes: list[int]) -> tuple[int, int]:
    return sum(demand.supply[bundle] for bundle in bundles), sum(demand.size[number] for number in classes)


def _split(demand: Demand, bundles: list[int], classes: list[int]) -> list[tuple[list[int], list[int]]]:
    """Splits a layer if equal loads are impossible: the bundles that do not fit with all their subscribers, and the
    rest. Loads are fractions, so everything is multiplied by the number of members."""
    partitions, members = _load(demand, bundles, classes)
    node = {number: place for place, number in enumerate(classes, start=2)}
    first = 2 + len(classes)
    network = FlowNetwork(first + len(bundles))
    for number in classes:
        network.add(node[number], _SINK, demand.size[number] * partitions)
    for place, bundle in enumerate(bundles, start=first):
        amount = demand.supply[bundle] * members
        network.add(_SOURCE, place, amount)
        for number in demand.classes[bundle]:
            if number in node:
                network.add(place, node[number], amount)
    if network.fill(_SOURCE, _SINK) == partitions * members:
        return []
    dense = {bundle for place, bundle in enumerate(bundles, start=first) if network.reached(place)}
    full = {number for number in classes if network.reached(node[number])}
    return [
        ([bundle for bundle in bundles if bundle in dense], [number for number in classes if number in full]),
        ([bundle for bundle in bundles if bundle not in dense], [number for number in classes if number not in full]),
    ]
