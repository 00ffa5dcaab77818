"""ListOffsets (2): the offset of a timestamp, or of a special one: -1 latest, -2 earliest, -3 of max timestamp.

v1  the first served; one offset a partition
v2  isolation_level, throttle time
v3  throttled answers leave at once
v4  leader epochs (KIP-320)
v5  OFFSET_NOT_AVAILABLE may be answered
v6  flexible
v7  -3 (KIP-734)
v8  -4, earliest local (KIP-405)
v9  -5, latest tiered (KIP-1005)
v10 timeout_ms (KIP-1075)
v11 -6, earliest pending upload (KIP-1023)
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named, OfPartition
from equipoise.wire.schema import Message, field


class ListOffsetsPartition(OfPartition):
    current_leader_epoch: int = field("int32", "4+", default=-1)
    timestamp: int = field("int64")


class ListOffsetsTopic(Named):
    partitions: list[ListOffsetsPartition] = field([ListOffsetsPartition])


class ListOffsetsRequest(Message, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = field("int32", default=-1)
    isolation_level: int = field("int8", "2+", default=0)
    topics: list[ListOffsetsTopic] = field([ListOffsetsTopic])
    timeout_ms: int = field("int32", "10+", default=0)


class ListOffsetsPartitionResponse(ErrorOfPartition):
    timestamp: int = field("int64", default=-1)
    offset: int = field("int64", default=-1)
    leader_epoch: int = field("int32", "4+", default=-1)


class ListOffsetsTopicResponse(Named):
    partitions: list[ListOffsetsPartitionResponse] = field([ListOffsetsPartitionResponse])


class ListOffsetsResponse(Message, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: list[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse])
