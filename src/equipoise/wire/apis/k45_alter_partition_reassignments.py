"""AlterPartitionReassignments (45): other replicas for partitions, or an end to a move under way (KIP-455).

v1  allow_replication_factor_change (KIP-860)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class ReassignablePartition(Struct):
    """`replicas` of null ends a reassignment under way."""

    partition_index: int = field("int32")
    replicas: list[int] | None = field(["int32"], nullable=True, default=None)


class ReassignableTopic(Struct):
    name: str = field("string")
    partitions: list[ReassignablePartition] = field([ReassignablePartition])


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = field("int32", default=60000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: list[ReassignableTopic] = field([ReassignableTopic])


class ReassignablePartitionResponse(Struct):
    partition_index: int = field("int32")
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class ReassignableTopicResponse(Struct):
    name: str = field("string")
    partitions: list[ReassignablePartitionResponse] = field([ReassignablePartitionResponse])


class AlterPartitionReassignmentsResponse(Throttled, Message, api_key=45, versions="0-1", flexible="0+"):
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    responses: list[ReassignableTopicResponse] = field([ReassignableTopicResponse])
