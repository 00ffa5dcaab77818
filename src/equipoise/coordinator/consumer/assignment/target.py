"""The target assignment: who is to have which partition. Rule A12.3.

A pure function of members, topics and the target before: values that nobody changes. So the runner of a shard may
compute a large one beside its loop (`TargetRequest`); others are computed in the turn of the shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from equipoise.assignors import GroupMember, Members, assignor_named, registered_assignor
from equipoise.coordinator.consumer.assignment import by_name, uniform
from equipoise.coordinator.metadata import NO_PARTITIONS, MetadataImage, Partitions, TopicImage
from equipoise.wire.consumer_protocol import Subscription

UNIFORM, RANGE = "uniform", "range"
ASSIGNORS = (UNIFORM, RANGE)
_STICKY = frozenset({"sticky", "cooperative-sticky"})  # protocols of classic groups


class TargetMember(NamedTuple):
    """A member as assignors see it: also a static one that is away. Rule A12.3."""

    topics: frozenset[bytes]  # of its subscription; those that do not exist are left out
    target: Partitions = NO_PARTITIONS  # the one before: targets are sticky relative to it (rule A12.6)
    instance_id: str | None = None
    rack_id: str | None = None


Targets = dict[str, Partitions]  # by member id; each member has one, even if it is empty


class TargetRequest(NamedTuple):
    """All that a target depends on. `Shard.target_computed` takes the answer. Rule A12.7."""

    number: int  # of the request, in its shard
    group_id: str
    epoch: int  # of the group
    assignor: str  # or the protocol of classic members
    members: Mapping[str, TargetMember]
    image: MetadataImage
    is_homogeneous: bool
    is_classic: bool

    def compute(self) -> Targets:
        """May take long, and raise what an assignor raises."""
        compute = compute_classic_target if self.is_classic else compute_target
        return compute(self.assignor, self.members, self.image, is_homogeneous=self.is_homogeneous)


def compute_target(
    assignor: str, members: Mapping[str, TargetMember], image: MetadataImage, *, is_homogeneous: bool
) -> Targets:
    """The next target of every member. `is_homogeneous`: all have the same subscription (rule A12.4). A member whose
    target stays keeps the same set. An assignor that is not built in has been registered; it may raise anything.

    Rules A12.3 and A12.5. Kafka: TargetAssignmentBuilder.build.
    """
    if not members:
        return {}
    topics = _topics(members, image)
    if assignor == UNIFORM and is_homogeneous:
        found = uniform.balance({member_id: member.target for member_id, member in members.items()}, topics)
    elif assignor == UNIFORM:
        found = by_name.balance(_named(members, topics), topics)
    elif assignor == RANGE:
        found = by_name.cut(_named(_without_targets(members), topics), topics)
    else:
        found = by_name.custom(registered_assignor(assignor), _named(members, topics, racks=True), topics)
    return {member_id: _same(members[member_id].target, found[member_id]) for member_id in members}


def compute_classic_target(
    protocol: str, members: Mapping[str, TargetMember], image: MetadataImage, *, is_homogeneous: bool
) -> Targets:
    """The next target by a built-in protocol of classic groups, as a leader would assign: racks count, and the sticky
    ones go by the target before. Rule C3.3."""
    if not members:
        return {}
    topics = _topics(members, image)
    if protocol not in _STICKY:
        named = _named(_without_targets(members), topics, racks=True)
        found = by_name.custom(assignor_named(protocol), named, topics)
    elif is_homogeneous and not any(member.rack_id for member in members.values()):
        found = uniform.balance({member_id: member.target for member_id, member in members.items()}, topics)
    else:
        found = by_name.balance(_named(members, topics, racks=True), topics)
    return {member_id: _same(members[member_id].target, found[member_id]) for member_id in members}


def _topics(members: Mapping[str, TargetMember], image: MetadataImage) -> list[TopicImage]:
    """What anybody subscribes to, by name: the order of ids is chance."""
    ids = frozenset[bytes]().union(*{member.topics for member in members.values()})
    found = (image.by_id(topic_id) for topic_id in ids)
    return sorted((topic for topic in found if topic is not None), key=lambda topic: topic.name)


def _named(members: Mapping[str, TargetMember], topics: list[TopicImage], *, racks: bool = False) -> Members:
    """The members as a leader sees them. No assignor of Kafka's on the coordinator knows racks. Rule A12.11.

    The assignor of a user (`racks`) sees partitions in order: that of a set would be chance.
    """
    names = {topic.topic_id: topic.name for topic in topics}
    subscribed: dict[frozenset[bytes], list[str]] = {}
    found = {}
    for member_id, member in members.items():
        if member.topics not in subscribed:
            subscribed[member.topics] = sorted(names[one] for one in member.topics if one in names)
        subscription = Subscription(
            topics=subscribed[member.topics],
            owned_partitions=by_name.partitions_by_name(sorted(member.target) if racks else member.target, names),
            rack_id=member.rack_id if racks else None,
        )
        found[member_id] = GroupMember(subscription, member.instance_id)
    return found


def _without_targets(members: Mapping[str, TargetMember]) -> dict[str, TargetMember]:
    return {member_id: member._replace(target=NO_PARTITIONS) for member_id, member in members.items()}


def _same(before: Partitions, after: Partitions) -> Partitions:
    return before if before == after else after
