"""Where a partition is: its replicas, its leader, and the epochs of its leaders. Pure values.

A leader may read and append; every other broker sends clients away. Each leader has an epoch, one above the last. An
epoch has a first offset: so a consumer learns where the log of an earlier leader ended (KIP-320). "Replicas" are the
brokers that may lead: all of them have the same log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import NamedTuple

NOBODY = -1  # leads a partition none of whose replicas is up
UNDEFINED = -1  # an epoch or an offset that is not known
EpochStarts = tuple[tuple[int, int], ...]  # epoch and first offset, both rising
_KEPT = 1000  # epochs with records, of one partition
_FROM_THE_FIRST_DAY: EpochStarts = ((0, 0),)


class Placement(NamedTuple):
    """The placement of one partition. `replicas`: the preferred leader first."""

    replicas: tuple[int, ...]
    leader: int
    epoch: int = 0
    starts: EpochStarts = _FROM_THE_FIRST_DAY

    def led_by(self, leader: int, end_offset: int) -> Placement:
        """A new leader, or the same one elected anew: its epoch begins at the end of the log.

        Kafka: PartitionChangeBuilder.build, Partition.makeLeader.
        """
        epoch = self.epoch + 1
        starts = self.starts if leader == NOBODY else with_epoch(self.starts, epoch, end_offset)
        return self._replace(leader=leader, epoch=epoch, starts=starts)

    def elected(self, live: Collection[int], end_offset: int) -> Placement:
        """The leader stays while it is up; else the first replica that is up leads
        (PartitionChangeBuilder.electLeader)."""
        if self.leader in live:
            return self
        leader = next((one for one in self.replicas if one in live), NOBODY)
        return self if leader == self.leader else self.led_by(leader, end_offset)

    def reassigned(self, replicas: tuple[int, ...], live: Collection[int], end_offset: int) -> Placement:
        """Other replicas: a leader that is one of them stays
        (ReplicationControlManager.changePartitionReassignment)."""
        moved = self._replace(replicas=replicas)
        leader = self.leader if self.leader in replicas else NOBODY
        return moved if leader in live else moved._replace(leader=NOBODY).elected(live, end_offset)

    def adopted(self, nodes: Sequence[int], end_offset: int) -> Placement:
        """At a start, with these brokers. Replicas that are gone may be back another time; if all are gone, all that
        there are take their place."""
        if any(one in nodes for one in self.replicas):
            return self.elected(nodes, end_offset)
        return self._replace(replicas=tuple(nodes), leader=NOBODY).elected(nodes, end_offset)


def with_epoch(starts: EpochStarts, epoch: int, offset: int) -> EpochStarts:
    """Epochs that begin there or later have no records (LeaderEpochFileCache.assign). Only the latest are kept: each is
    saved with every move of any partition."""
    return (*[one for one in starts if one[1] < offset][-_KEPT:], (epoch, offset))


def epoch_of(starts: EpochStarts, offset: int) -> int:
    """The epoch in which the record at `offset` was written (LeaderEpochFileCache.epochForOffset)."""
    found = bisect_right(starts, offset, key=lambda one: one[1])
    return starts[found - 1][0] if found else UNDEFINED


def epoch_end(starts: EpochStarts, epoch: int, end_offset: int) -> tuple[int, int]:
    """The last epoch up to `epoch` that has records, and where it ends (LeaderEpochFileCache.endOffsetFor)."""
    if epoch < 0 or not starts or epoch > starts[-1][0]:
        return UNDEFINED, UNDEFINED
    later = bisect_right(starts, epoch, key=lambda one: one[0])
    if later == 0:
        return epoch, starts[0][1]
    return starts[later - 1][0], starts[later][1] if later < len(starts) else end_offset


def spread(nodes: Sequence[int], count: int, *, factor: int, first: int) -> list[tuple[int, ...]]:
    """The replicas of new partitions: leaders one after the other, from the `first` broker on
    (StripedReplicaPlacer.place)."""
    many = len(nodes)
    return [tuple(nodes[(first + index + step) % many] for step in range(factor)) for index in range(count)]
