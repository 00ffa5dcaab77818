"""OffsetForLeaderEpoch (23): where a leader epoch ended, so that a reader notices lost records.

v2  the first served; current_leader_epoch fences, throttle time (KIP-320)
v3  replica_id; -1 is a consumer, -2 may look past the high watermark
v4  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field("int32")
    current_leader_epoch: int = field("int32", default=-1)
    leader_epoch: int = field("int32")


class OffsetForLeaderTopic(Struct):
    topic: str = field("string")
    partitions: list[OffsetForLeaderPartition] = field([OffsetForLeaderPartition])


class OffsetForLeaderEpochRequest(Message, api_key=23, versions="2-4", flexible="4+"):
    replica_id: int = field("int32", "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field([OffsetForLeaderTopic])


class EpochEndOffset(Struct):
    error_code: int = field("int16")
    partition: int = field("int32")
    leader_epoch: int = field("int32", default=-1)
    end_offset: int = field("int64", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field("string")
    partitions: list[EpochEndOffset] = field([EpochEndOffset])


class OffsetForLeaderEpochResponse(Throttled, Message, api_key=23, versions="2-4", flexible="4+"):
    topics: list[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult])
