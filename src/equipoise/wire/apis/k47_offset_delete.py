"""OffsetDelete (47): forgets committed offsets of a group (KIP-496). One version, never flexible."""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field("int32")


class OffsetDeleteRequestTopic(Struct):
    name: str = field("string")
    partitions: list[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition])


class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    group_id: str = field("string")
    topics: list[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic])


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field("int32")
    error_code: int = field("int16")


class OffsetDeleteResponseTopic(Struct):
    name: str = field("string")
    partitions: list[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition])


class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    error_code: int = field("int16")
    throttle_time_ms: int = field("int32", default=0)
    topics: list[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], default=[])
