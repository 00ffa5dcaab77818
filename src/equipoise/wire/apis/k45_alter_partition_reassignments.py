"""AlterPartitionReassignments (45): other replicas for partitions, or an end to a move under way (KIP-455).

v1  allow_replication_factor_change (KIP-860)
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named, OfPartition, Throttled
from equipoise.wire.schema import Message, field


class ReassignablePartition(OfPartition):
    """`replicas` of null ends a reassignment under way."""

    replicas: list[int] | None = field(["int32"], nullable=True, default=None)


class ReassignableTopic(Named):
    partitions: list[ReassignablePartition] = field([ReassignablePartition])


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = field("int32", default=60000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: list[ReassignableTopic] = field([ReassignableTopic])


class ReassignablePartitionResponse(ErrorOfPartition):
    error_message: str | None = field("string", nullable=True, default=None)


class ReassignableTopicResponse(Named):
    partitions: list[ReassignablePartitionResponse] = field([ReassignablePartitionResponse])


class AlterPartitionReassignmentsResponse(Throttled, Message, api_key=45, versions="0-1", flexible="0+"):
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    responses: list[ReassignableTopicResponse] = field([ReassignableTopicResponse])
