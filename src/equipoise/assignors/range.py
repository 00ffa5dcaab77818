"""`range`: cuts each topic into one run of partitions per subscriber. Topics with equal partition counts and equal
subscribers are cut alike (co-partitioning). If racks are known and differ, a member comes first for the partitions
with a replica in its rack (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from equipoise.assignors.assignor import Assignments, Assignor, Cluster, Members, Topic
from equipoise.assignors.order import Subscribers, member_order
from equipoise.assignors.racks import Rack, racks_matter
from equipoise.wire.consumer_protocol import Assignment, Partitions


class RangeAssignor(Assignor):
    """The assignor `range`."""

    name = "range"

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        subscribers = Subscribers(cluster, members, member_order(members))
        racks = [members[member_id].subscription.rack_id or None for member_id in subscribers.order]
        cuts = list(_cuts(cluster, subscribers, racks))
        if any(cut.needs_racks(topic) for cut in cuts for topic in cut.topics.values()):
            for cut in cuts:
                cut.match_racks()
        given: list[Partitions] = [{} for _ in subscribers.order]
        for cut in cuts:
            for position, run in cut.finish():
                given[position] |= {topic: list(run) for topic in cut.topics}
        return {
            member_id: Assignment(assigned_partitions={topic: partitions[topic] for topic in sorted(partitions)})
            for member_id, partitions in zip(subscribers.order, given, strict=True)
        }


def _cuts(cluster: Cluster, subscribers: Subscribers, racks: Sequence[Rack]) -> Iterator[_Cut]:
    for classes, names in subscribers.topics_by_classes().items():
        positions = subscribers.positions(classes)
        alike: dict[int, dict[str, Topic]] = {}
        for name in names:
            alike.setdefault(cluster[name].partitions, {})[name] = cluster[name]
        for count, topics in alike.items():
            yield _Cut(topics, count, positions, [racks[position] for position in positions])


class _Cut:
    """Topics with the same subscribers and partition count: a member gets the same partitions of each."""

    def __init__(
        self, topics: dict[str, Topic], count: int, positions: Sequence[int], racks_of_members: Sequence[Rack]
    ) -> None:
        self.topics = topics
        self._positions = positions
        self._member_racks = racks_of_members
        self._least, self._extra = divmod(count, len(positions))
        self._runs: list[list[int]] = [[] for _ in positions]
        self._free = dict.fromkeys(range(count))

    def needs_racks(self, topic: Topic) -> bool:
        return racks_matter(self._member_racks, topic.racks)

    def match_racks(self) -> None:
        if not any(self._member_racks):
            return
        if len(self.topics) > 1:
            self._match_each_partition()
        elif any(map(self.needs_racks, self.topics.values())):
            self._match_each_member()

    def _match_each_partition(self) -> None:
        """In order of partitions: the first member with room that is in the rack in all topics."""
        queues = {rack: self._members_with_room(rack) for rack in set(self._member_racks)}
        heads = {rack: next(queue, None) for rack, queue in queues.items()}
        for partition in list(self._free):
            matching = self._racks_of(partition) | {None}
            for rack in matching & heads.keys():
                if (member := heads[rack]) is not None and not self._room(member):
                    heads[rack] = next(queues[rack], None)
            found = [member for rack in matching & heads.keys() if (member := heads[rack]) is not None]
            if found:
                self._give(min(found), [partition])

    def _members_with_room(self, rack: Rack) -> Iterator[int]:
        """Room is checked when a member is reached: a full member stays full."""
        return (member for member, its in enumerate(self._member_racks) if its == rack and self._room(member))

    def _match_each_member(self) -> None:
        """In order of members: the first partitions in its rack, up to its quota."""
        racks = {partition: self._racks_of(partition) | {None} for partition in self._free}
        in_rack = {rack: iter([p for p in racks if rack in racks[p]]) for rack in set(self._member_racks)}
        for member, rack in enumerate(self._member_racks):
            free = (partition for partition in in_rack[rack] if partition in self._free)
            self._give(member, list(islice(free, self._room(member))))

    def _racks_of(self, partition: int) -> AbstractSet[Rack]:
        """The racks in which the partition has replicas in every topic."""
        racks = [topic.racks[partition] if topic.racks else frozenset() for topic in self.topics.values()]
        return frozenset(racks[0]).intersection(*racks[1:])

    def _room(self, member: int) -> int:
        return max(0, self._least + (self._extra > 0) - len(self._runs[member]))

    def _give(self, member: int, partitions: list[int]) -> None:
        self._runs[member] += partitions
        self._extra -= bool(partitions) and len(self._runs[member]) > self._least
        for partition in partitions:
            del self._free[partition]

    def finish(self) -> Iterator[tuple[int, list[int]]]:
        """Assigns the remaining partitions in order; then returns each member with partitions, by position."""
        rest = iter(list(self._free))
        for member, position in enumerate(self._positions):
            self._give(member, list(islice(rest, self._room(member))))
            if self._runs[member]:
                yield position, sorted(self._runs[member])
