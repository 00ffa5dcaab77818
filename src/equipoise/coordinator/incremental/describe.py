"""DescribeGroups of an incremental group: as of a classic one, in every state. Rule C7.4."""

from __future__ import annotations

from equipoise.coordinator.classic.replies import described_member
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests.guest_data import encoded_assignment, version_of
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.incremental.eligibility import offered_by, selected_protocol
from equipoise.coordinator.incremental.syncs import metadata_of
from equipoise.coordinator.metadata import MetadataImage
from equipoise.wire.apis.k15_describe_groups import DescribedGroup, DescribedGroupMember
from equipoise.wire.errors import ErrorCode


def describe(group: ConsumerGroup, image: MetadataImage) -> DescribedGroup:
    """Its protocol is the one that its members have chosen; each has what it has, and what it has still to give up."""
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_word,
        protocol_type=group.protocol_type,
        protocol_data=selected_protocol(offered_by(group)) or "",
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage) -> DescribedGroupMember:
    metadata = metadata_of(group, member)
    assignment = encoded_assignment((*member.assigned, *member.revoking), image, version_of(metadata))
    return described_member(member.who, metadata, assignment)
