"""Produce (0): record batches to append, topic by topic.

v3  the first served; batches of magic 2, transactional_id
v4  KAFKA_STORAGE_ERROR may be answered
v5  log_start_offset answered
v6  throttled answers leave at once
v7  zstd allowed
v8  record_errors and error_message (KIP-467)
v9  flexible
v10 current_leader, node_endpoints (KIP-951)
v11 TRANSACTION_ABORTABLE may be answered
v12 adds partitions to the transaction by itself (KIP-890)
v13 topic ids in place of names (KIP-516)
"""

from __future__ import annotations

from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class PartitionProduceData(Struct):
    index: int = field("int32")
    records: bytes | memoryview | None = field("records", nullable=True)


class ProduceTopicKey(Struct, shared=True):
    """A topic by its name, later by its id."""

    name: str = field("string", "0-12", default="")
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)


class TopicProduceData(ProduceTopicKey):
    partition_data: list[PartitionProduceData] = field([PartitionProduceData])


class ProduceRequest(Message, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = field("string", nullable=True, default=None)
    acks: int = field("int16")
    timeout_ms: int = field("int32")
    topic_data: list[TopicProduceData] = field([TopicProduceData])


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field("int32")
    batch_index_error_message: str | None = field("string", nullable=True, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)


class PartitionProduceResponse(Struct):
    index: int = field("int32")
    error_code: int = field("int16")
    base_offset: int = field("int64")
    log_append_time_ms: int = field("int64", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field([BatchIndexAndErrorMessage], "8+", default=[])
    error_message: str | None = field("string", "8+", nullable=True, default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0, default=None)


class TopicProduceResponse(ProduceTopicKey):
    partition_responses: list[PartitionProduceResponse] = field([PartitionProduceResponse])


class NodeEndpoint(Struct):
    node_id: int = field("int32")
    host: str = field("string")
    port: int = field("int32")
    rack: str | None = field("string", nullable=True, default=None)


class ProduceResponse(Message, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = field([TopicProduceResponse])
    throttle_time_ms: int = field("int32", default=0)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], "10+", tag=0, default=[])
