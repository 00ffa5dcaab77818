"""Assignors of the classic protocol on the coordinator: topics by name outside, by id inside.

They see the group as a leader does: subscriptions, and as owned partitions the target before. `range`, `uniform` with
different subscriptions, and every assignor that a user writes come this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from equipoise.assignors import Assignments, Assignor, Cluster, Members, RangeAssignor, Topic
from equipoise.coordinator.metadata import NO_PARTITIONS, Partitions, TopicImage, TopicPartition
from equipoise.wire.consumer_protocol import Partitions as ByName
from equipoise.wire.consumer_protocol import StickyUserData
from equipoise.wire.errors import UsageError

Sorted = list[TopicImage]  # the topics of a group
MOST_PAIRS = (
    1_000  # of different topics and different subscriptions; beyond, the best balance takes too long for a turn
)
_GENERATION = 1  # targets are never older than each other


def balance(members: Members, topics: Sorted) -> dict[str, Partitions]:
    """`uniform` for different subscriptions: the best balance, with the fewest moves for it.

    Kafka's moves one partition at a time and may stop early; ours is never worse (docs/assignors.md). Rule A12.9.
    Kafka: UniformHeterogeneousAssignmentBuilder.build.
    """
    from equipoise.assignors.sticky_core.plan import make_plan  # numpy, when it is needed

    memories = {
        member_id: StickyUserData(owned_partitions=member.subscription.owned_partitions, generation_id=_GENERATION)
        for member_id, member in members.items()
    }
    plan = make_plan(cluster_of(topics), members, memories, most_pairs=MOST_PAIRS)
    return _by_id(plan.by_member(plan.owner), topics)


def cut(members: Members, topics: Sorted) -> dict[str, Partitions]:
    """`range`: a run of each topic for each subscriber, static members first. Not sticky.

    Rule A12.10. Kafka: RangeAssignor.assign.
    """
    return _by_id(_assigned(RangeAssignor().assign(cluster_of(topics), members)), topics)


def custom(assignor: Assignor, members: Members, topics: Sorted) -> dict[str, Partitions]:
    """The assignor of a user. Raises UsageError if it gives what is not there, or one partition twice. Rule A12.12."""
    found = assignor.assign(cluster_of(topics), members)
    unknown = found.keys() - members.keys()
    if unknown:
        raise UsageError(f"the assignor {assignor.name!r} has assigned to {min(unknown)!r}, which is no member")
    targets = dict.fromkeys(members, NO_PARTITIONS) | _by_id(_checked(assignor, found, topics), topics)
    if sum(map(len, targets.values())) != len(NO_PARTITIONS.union(*targets.values())):
        raise UsageError(f"the assignor {assignor.name!r} has assigned a partition to two members")
    return targets


def _checked(assignor: Assignor, found: Assignments, topics: Sorted) -> dict[str, ByName]:
    counts = {topic.name: topic.partitions for topic in topics}
    given = _assigned(found)
    for partitions in given.values():
        for name, numbers in partitions.items():
            if not all(0 <= number < counts.get(name, 0) for number in numbers):
                raise UsageError(
                    f"the assignor {assignor.name!r} has assigned a partition of {name!r} that is not there"
                )
    return given


def cluster_of(topics: Iterable[TopicImage]) -> Cluster:
    """The topics as a leader sees them."""
    return {topic.name: Topic(topic.partitions, topic.racks) for topic in topics}


def partitions_by_name(partitions: Iterable[TopicPartition], names: Mapping[bytes, str]) -> ByName:
    """A set of partitions as a leader sees it; topics that are not among the names are left out."""
    found: ByName = {}
    for topic_id, number in partitions:
        if topic_id in names:
            found.setdefault(names[topic_id], []).append(number)
    return found


def _assigned(assignments: Assignments) -> dict[str, ByName]:
    return {member_id: assignment.assigned_partitions for member_id, assignment in assignments.items()}


def _by_id(given: Mapping[str, ByName], topics: Sorted) -> dict[str, Partitions]:
    ids = {topic.name: topic.topic_id for topic in topics}
    return {
        member_id: frozenset((ids[name], number) for name, numbers in partitions.items() for number in numbers)
        for member_id, partitions in given.items()
    }
