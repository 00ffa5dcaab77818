"""What a plan counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class Costs:
    """Counted while a scenario goes on. Times are milliseconds."""

    rebalances: int = 0
    joins: int = 0  # JoinGroup requests
    syncs: int = 0  # SyncGroup requests
    leaves: int = 0  # LeaveGroup requests, and heartbeats that leave
    heartbeats: float = 0.0
    dark_ms: float = 0.0  # partitions x time in which nobody reads them
    repeated_ms: float = 0.0  # partitions x time whose records are processed twice
    moved: int = 0  # partitions that have another owner
    longest_dark_ms: float = 0.0  # of one partition

    def is_dark(self, partitions: float, ms: float) -> None:
        """So many partitions are not read for so long."""
        if partitions > 0 and ms > 0:
            self.dark_ms += float(partitions * ms)
            self.longest_dark_ms = max(self.longest_dark_ms, float(ms))


class Planned(NamedTuple):
    """A strategy in a scenario, in the units that people read."""

    strategy: str
    rebalances: int
    messages: int  # all requests of the group protocol
    heartbeats: int  # of them
    dark_partition_seconds: float
    longest_dark_seconds: float
    repeated_partition_seconds: float
    moved_partitions: int
    seconds: float  # the scenario lasts

    @classmethod
    def of(cls, strategy: str, costs: Costs, length_ms: float) -> Planned:
        """Rounded where the model cannot know better."""
        requests = costs.joins + costs.syncs + costs.leaves
        return cls(
            strategy=strategy,
            rebalances=costs.rebalances,
            messages=round(requests + costs.heartbeats),
            heartbeats=round(costs.heartbeats),
            dark_partition_seconds=round(costs.dark_ms / 1_000, 3),
            longest_dark_seconds=round(costs.longest_dark_ms / 1_000, 3),
            repeated_partition_seconds=round(costs.repeated_ms / 1_000, 3),
            moved_partitions=costs.moved,
            seconds=round(length_ms / 1_000, 3),
        )
