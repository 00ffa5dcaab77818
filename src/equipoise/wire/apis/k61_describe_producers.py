"""DescribeProducers (61): the producers that partitions know, and their open transactions (KIP-664)."""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named, Throttled
from equipoise.wire.schema import Message, Struct, field


class DescribeProducersTopicRequest(Named):
    partition_indexes: list[int] = field(["int32"])


class DescribeProducersRequest(Message, api_key=61, versions="0", flexible="0+"):
    topics: list[DescribeProducersTopicRequest] = field([DescribeProducersTopicRequest])


class ProducerState(Struct):
    producer_id: int = field("int64")
    producer_epoch: int = field("int32")
    last_sequence: int = field("int32", default=-1)
    last_timestamp: int = field("int64", default=-1)
    coordinator_epoch: int = field("int32")
    current_txn_start_offset: int = field("int64", default=-1)


class DescribeProducersPartitionResponse(ErrorOfPartition):
    error_message: str | None = field("string", nullable=True, default=None)
    active_producers: list[ProducerState] = field([ProducerState])


class DescribeProducersTopicResponse(Named):
    partitions: list[DescribeProducersPartitionResponse] = field([DescribeProducersPartitionResponse])


class DescribeProducersResponse(Throttled, Message, api_key=61, versions="0", flexible="0+"):
    topics: list[DescribeProducersTopicResponse] = field([DescribeProducersTopicResponse])
