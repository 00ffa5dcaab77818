"""OffsetForLeaderEpoch (23, KIP-320). Where an epoch ends, and so where a consumer of an earlier leader went astray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True


def handle(server: Server, request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    """Answers where an epoch ends (KafkaApis.handleOffsetForLeaderEpochRequest)."""
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic, partitions=[_end(server, call, topic.topic, asked) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(server: Server, call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if not server.is_authorized(call, AclOperation.CLUSTER_ACTION, CLUSTER, quiet=True):
            server.authorize(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, topic))
        partition = server.topics.partition(topic, asked.partition)
        server.cluster.check_leader(call, partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    epoch, end_offset = partition.epoch_end(asked.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset
    )
