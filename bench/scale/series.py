"""A series: the cost of one unit for each part of the system, as the number of something grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_DOUBLE = 2.0


class Series(NamedTuple):
    """`costs` has CPU microseconds for each unit, by part of the system, at each of `sizes`."""

    key: str
    title: str
    axis: str  # what grows
    unit: str  # what the cost is of
    sizes: Sequence[int]
    costs: Mapping[str, list[float]]

    def per(self, key: str, title: str, unit: str, units: Sequence[float]) -> Series:
        """The same costs for another unit: `units` of those here make one, at each size."""
        costs = {part: [one * n for one, n in zip(mine, units, strict=True)] for part, mine in self.costs.items()}
        return self._replace(key=key, title=title, unit=unit, costs=costs)

    def doublings(self) -> Iterator[tuple[str, int | None]]:
        """For each part the first size at which a unit costs twice as much as at the cheapest smaller size."""
        for part, costs in self.costs.items():
            yield part, first_doubling(self.sizes, costs)


def first_doubling(sizes: Sequence[int], costs: Sequence[float]) -> int | None:
    for at in range(1, len(costs)):
        if costs[at] >= _DOUBLE * min(costs[:at]):
            return sizes[at]
    return None
