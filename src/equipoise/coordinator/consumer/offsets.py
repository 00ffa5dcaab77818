"""OffsetCommit and OffsetFetch of members of `consumer` groups: what epoch may commit what. Rule A17."""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import ZERO_UUID

_EPOCHS_FROM = 9


def check_commit(
    group: ConsumerGroup, request: OffsetCommitRequest, version: int, topic_ids: Mapping[str, bytes]
) -> None:
    """The epoch of the member may commit anything; an older one only what the member has had since then (KIP-1251).

    Neither the instance id nor the state of the group counts, and a commit is no sign of life. Raises KafkaError.
    Rules A17.1 to A17.6. Kafka: ConsumerGroup.validateOffsetCommit.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return
    member = group.check_member(request.member_id, None)
    if member.classic is None and version < _EPOCHS_FROM:
        message = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch:
        raise stale(member, f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    for topic in request.topics:
        topic_id = topic_ids.get(topic.name, ZERO_UUID)
        for row in topic.partitions:
            _check_partition(member, epoch, (topic_id, row.partition_index))


def _check_partition(member: ConsumerGroupMember, epoch: int, partition: tuple[bytes, int]) -> None:
    """Kafka: ConsumerGroup.createAssignmentEpochValidator."""
    since = member.assigned.get(partition, member.revoking.get(partition))
    if since is None:
        raise stale(member, f"Partition {partition[1]} is not assigned or pending revocation for member.")
    if epoch < since:
        raise stale(member, f"Received member epoch {epoch} is older than assignment epoch {since}.")


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """The epoch must be the member's own. Who gives neither id nor epoch may read. Raises KafkaError.

    Rule A17.8. Kafka: ConsumerGroup.validateOffsetFetch.
    """
    if member_id is None and member_epoch < 0:
        return
    member = group.check_member(member_id or "", None)
    if member_epoch != member.member_epoch:
        message = f"The received member epoch {member_epoch} does not match the expected {member.member_epoch}."
        raise stale(member, message)


def stale(member: ConsumerGroupMember, message: str) -> KafkaError:
    """A classic member speaks of generations. Rules A17.4 and A17.5."""
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION, message)
