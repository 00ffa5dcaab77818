"""Metadata (3): brokers, topics, partitions and their leaders.

v0  empty topics means all
v1  null means all, empty means none; rack, controller_id, is_internal
v2  cluster_id
v3  throttle time
v4  allow_auto_topic_creation
v5  offline_replicas
v6  throttled answers leave at once
v7  leader_epoch
v8  authorized operations
v9  flexible
v10 topic_id on the wire, not to be used yet
v11 no cluster authorized operations (KIP-700)
v12 topics may be asked by id, name null
v13 a top-level error_code

librdkafka (seen in 2.16.1) asks for all topics from v9 on with four bytes of null where one is right, so that
three bytes stand after the last field. Kafka reads what it needs and looks no further, and so do we.
"""

from __future__ import annotations

from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class MetadataRequestTopic(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str | None = field("string", nullable="10+", default=None)


class MetadataRequest(Message, api_key=3, versions="0-13", flexible="9+", ignore_rest=True):
    topics: list[MetadataRequestTopic] | None = field([MetadataRequestTopic], nullable="1+")
    allow_auto_topic_creation: bool = field("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = field("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = field("bool", "8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int = field("int32")
    host: str = field("string")
    port: int = field("int32")
    rack: str | None = field("string", "1+", nullable=True, default=None)


class MetadataResponsePartition(Struct):
    error_code: int = field("int16")
    partition_index: int = field("int32")
    leader_id: int = field("int32")
    leader_epoch: int = field("int32", "7+", default=-1)
    replica_nodes: list[int] = field(["int32"])
    isr_nodes: list[int] = field(["int32"])
    offline_replicas: list[int] = field(["int32"], "5+", default=[])


class MetadataResponseTopic(Struct):
    error_code: int = field("int16")
    name: str | None = field("string", nullable="12+")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    is_internal: bool = field("bool", "1+", default=False)
    partitions: list[MetadataResponsePartition] = field([MetadataResponsePartition])
    topic_authorized_operations: int = field("int32", "8+", default=-(2**31))


class MetadataResponse(Message, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    brokers: list[MetadataResponseBroker] = field([MetadataResponseBroker])
    cluster_id: str | None = field("string", "2+", nullable=True, default=None)
    controller_id: int = field("int32", "1+", default=-1)
    topics: list[MetadataResponseTopic] = field([MetadataResponseTopic])
    cluster_authorized_operations: int = field("int32", "8-10", default=-(2**31))
    error_code: int = field("int16", "13+", default=0)
