"""Names at the edge, integers inside: partitions are numbered through all topics, members by their place in an
order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from equipoise.assignors.assignor import Cluster
from equipoise.wire.consumer_protocol import Partitions

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NOBODY = -1


class Numbering:
    """Topic t has the partitions from starts[t] up to starts[t + 1]."""

    def __init__(self, counts: Sequence[int], names: Sequence[str] = ()) -> None:
        self.names = names
        self.counts: Ints = np.array(counts, np.int64)
        self.starts: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.counts)))
        self.topics = len(counts)
        self.partitions = int(self.starts[-1])

    @classmethod
    def of(cls, cluster: Cluster, topics: Sequence[str]) -> Numbering:
        """Numbers the partitions of `topics`, which the cluster must have."""
        return cls([cluster[topic].partitions for topic in topics], topics)

    def each(self, of_topic: Ints) -> Ints:
        """Repeats a property of topics for each partition."""
        return np.repeat(of_topic, self.counts)

    def topics_of(self, ascending: Ints) -> Ints:
        """The topics of some partitions."""
        return np.repeat(np.arange(self.topics), np.diff(np.searchsorted(ascending, self.starts)))

    def claims(self, owned: Sequence[Partitions]) -> tuple[Ints, Ints]:
        """The partitions that members claim to own, as pairs of partition and member. Unknown partitions are left
        out."""
        number_of = {topic: number for number, topic in enumerate(self.names)}
        rows: list[tuple[int, int, int]] = []
        flat: list[int] = []
        for member, partitions in enumerate(owned):
            for topic, numbers in partitions.items():
                if topic in number_of:
                    rows.append((member, number_of[topic], len(numbers)))
                    flat += numbers
        table = np.array(rows, np.int64).reshape(-1, 3)
        members, topics = (np.repeat(table[:, column], table[:, 2]) for column in (0, 1))
        numbers_in_topic = np.array(flat, np.int64)
        exists = (numbers_in_topic >= 0) & (numbers_in_topic < self.counts[topics])
        return (self.starts[topics] + numbers_in_topic)[exists], members[exists]

    def by_member(self, owner: Ints, members: int) -> list[Partitions]:
        """The partitions of each member, by name, in order."""
        given: list[Partitions] = [{} for _ in range(members)]
        held = np.flatnonzero(owner >= 0)
        owners, partitions = np.divmod(np.sort(owner[held] * self.partitions + held), max(self.partitions, 1))
        topics = self.each(np.arange(self.topics))[partitions]
        begins = np.flatnonzero(np.diff(owners * self.topics + topics, prepend=-1))
        numbers = (partitions - self.starts[topics]).tolist()
        ends = np.append(begins, len(numbers))[1:]
        rows = zip(*(column.tolist() for column in (owners[begins], topics[begins], begins, ends)), strict=True)
        for member, topic, begin, end in rows:
            given[member][self.names[topic]] = numbers[begin:end]
        return given
