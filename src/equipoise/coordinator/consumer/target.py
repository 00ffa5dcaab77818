"""The target assignment: who is to have which partition. Rule A12.

A pure function of members, topics and the target before. It runs in the turn of the shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from equipoise.coordinator.metadata import NO_PARTITIONS, MetadataImage, Partitions, TopicPartition

UNIFORM, RANGE = "uniform", "range"
ASSIGNORS = (UNIFORM, RANGE)


class TargetMember(NamedTuple):
    """A member as assignors see it: also a static one that is away. Rule A12.3."""

    topics: frozenset[bytes]  # of its subscription; those that do not exist are left out
    target: Partitions = NO_PARTITIONS  # the one before: targets are sticky relative to it (rule A12.6)
    instance_id: str | None = None
    rack_id: str | None = None


Targets = dict[str, Partitions]  # by member id; each member has one, even if it is empty


def compute_target(
    assignor: str, members: Mapping[str, TargetMember], image: MetadataImage, *, is_homogeneous: bool
) -> Targets:
    """The next target of every member. `is_homogeneous`: all have the same subscription (rule A12.4).

    Rule A12. Kafka: TargetAssignmentBuilder.build.
    """
    loads: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    subscribers: dict[bytes, list[str]] = {}
    for member_id, member in members.items():
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    wanted = _partitions(subscribers, image)
    quota = -(-len(wanted) // max(len(members), 1))
    free = set(wanted)
    for member_id, member in members.items():
        kept = [one for one in sorted(member.target) if one in free and one[0] in member.topics][:quota]
        loads[member_id].update(kept)
        free.difference_update(kept)
    for partition in sorted(free):
        least = min(subscribers[partition[0]], key=lambda one: len(loads[one]))
        loads[least].add(partition)
    _level(loads, subscribers)
    return {member_id: frozenset(load) for member_id, load in loads.items()}


def _partitions(subscribers: Mapping[bytes, list[str]], image: MetadataImage) -> list[TopicPartition]:
    found = (image.by_id(topic_id) for topic_id in subscribers)
    return [(topic.topic_id, number) for topic in found if topic is not None for number in range(topic.partitions)]


def _level(loads: dict[str, set[TopicPartition]], subscribers: Mapping[bytes, list[str]]) -> None:
    """Single moves from a member with more to one with at least two less, until there is none."""
    moved = True
    while moved:
        moved = False
        for topic_id, members in subscribers.items():
            most, least = max(members, key=lambda one: len(loads[one])), min(members, key=lambda one: len(loads[one]))
            one = max((found for found in loads[most] if found[0] == topic_id), default=None)
            if one is not None and len(loads[most]) - len(loads[least]) > 1:
                loads[most].remove(one)
                loads[least].add(one)
                moved = True
