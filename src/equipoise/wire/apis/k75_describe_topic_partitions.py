"""DescribeTopicPartitions (75): partitions of topics in pages, with eligible leader replicas (KIP-966). One version."""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class TopicRequest(Struct):
    name: str = field("string")


class Cursor(Struct):
    topic_name: str = field("string")
    partition_index: int = field("int32")


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field([TopicRequest])
    response_partition_limit: int = field("int32", default=2000)
    cursor: Cursor | None = field(Cursor, nullable=True, default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field("int16")
    partition_index: int = field("int32")
    leader_id: int = field("int32")
    leader_epoch: int = field("int32", default=-1)
    replica_nodes: list[int] = field(["int32"])
    isr_nodes: list[int] = field(["int32"])
    eligible_leader_replicas: list[int] | None = field(["int32"], nullable=True, default=None)
    last_known_elr: list[int] | None = field(["int32"], nullable=True, default=None)
    offline_replicas: list[int] = field(["int32"], default=[])


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field("int16")
    name: str | None = field("string", nullable=True)
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    is_internal: bool = field("bool", default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field([DescribeTopicPartitionsResponsePartition])
    topic_authorized_operations: int = field("int32", default=-(2**31))


class DescribeTopicPartitionsResponse(Throttled, Message, api_key=75, versions="0", flexible="0+"):
    topics: list[DescribeTopicPartitionsResponseTopic] = field([DescribeTopicPartitionsResponseTopic])
    next_cursor: Cursor | None = field(Cursor, nullable=True, default=None)
