"""ConsumerGroupDescribe: what a `consumer` group is, has and is to have. Rule A18."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.assignment.epochs import preferred_assignor
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import by_topic
from equipoise.coordinator.metadata import NO_PARTITIONS, MetadataImage, Partitions, TopicPartition
from equipoise.wire.apis.k69_consumer_group_describe import (
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedTopicPartitions,
)
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_CLASSIC, _CONSUMER = 0, 1


def describe_consumer_group(shard: Shard, group_id: str) -> DescribedConsumerGroup:
    """The group without its members, which `describe_members` tells.

    Rules A18.1 and A18.2. Kafka: GroupMetadataManager.consumerGroupDescribe."""
    if not group_id:
        return DescribedConsumerGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id="")
    group = shard.find(group_id)
    if not isinstance(group, ConsumerGroup) or group.is_shown_classic:
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedConsumerGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=what, group_id=group_id)
    return DescribedConsumerGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_word,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(shard, group),
        members=[],
    )


def describe_members(shard: Shard, group_id: str) -> Iterator[DescribedConsumerGroupMember]:
    """The members as they are now, one by one: between two of them the caller may do something else."""
    group = shard.consumer_groups.get(group_id)
    if group is None:
        return iter(())
    image, targets = shard.image, dict(group.targets)
    return (_member(image, targets, member) for member in list(group.members.values()))


def _member(
    image: MetadataImage, targets: Mapping[str, Partitions], member: ConsumerGroupMember
) -> DescribedConsumerGroupMember:
    """What is to be given up still counts as assigned (KAFKA-20431). Rule A18.3.

    Kafka: ConsumerGroupMember.asConsumerGroupDescribeMember.
    """
    return DescribedConsumerGroupMember(
        **member.metadata(),
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        assignment=_assignment(image, member.assigned.keys() | member.revoking.keys()),
        target_assignment=_assignment(image, targets.get(member.member_id, NO_PARTITIONS)),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(image: MetadataImage, partitions: Iterable[TopicPartition]) -> DescribedAssignment:
    """Topics that are gone are left out."""
    rows = [(topic_id, image.name_of(topic_id), numbers) for topic_id, numbers in by_topic(partitions)]
    found = [
        DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=numbers)
        for topic_id, name, numbers in rows
        if name is not None
    ]
    return DescribedAssignment(topic_partitions=found)
