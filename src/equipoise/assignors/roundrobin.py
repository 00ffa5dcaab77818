"""`roundrobin`: deals the partitions of all topics to a ring of members, and skips members that do not subscribe."""

from __future__ import annotations

from bisect import bisect_left

from equipoise.assignors.assignor import Assignments, Assignor, Cluster, Members
from equipoise.assignors.order import Subscribers, member_order
from equipoise.wire.consumer_protocol import Assignment, Partitions


class RoundRobinAssignor(Assignor):
    """The assignor `roundrobin`."""

    name = "roundrobin"

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        subscribers = Subscribers(cluster, members, member_order(members))
        given: list[Partitions] = [{} for _ in subscribers.order]
        rings = {
            topic: ring
            for classes, topics in subscribers.topics_by_classes().items()
            for ring in [subscribers.positions(classes)]
            for topic in topics
        }
        turn = 0  # whose position in the order is next
        for topic in subscribers.topics:
            ring, count = rings[topic], cluster[topic].partitions
            first = bisect_left(ring, turn)
            for step in range(min(count, len(ring))):
                given[ring[(first + step) % len(ring)]][topic] = list(range(step, count, len(ring)))
            turn = ring[(first + count - 1) % len(ring)] + 1
        return {
            member_id: Assignment(assigned_partitions=partitions)
            for member_id, partitions in zip(subscribers.order, given, strict=True)
        }
