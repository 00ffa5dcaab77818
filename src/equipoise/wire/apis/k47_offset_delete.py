"""OffsetDelete (47): forgets committed offsets of a group (KIP-496). One version, never flexible."""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named, OfPartition
from equipoise.wire.schema import Message, field


class OffsetDeleteRequestPartition(OfPartition):
    """Whose offset is to be forgotten."""


class OffsetDeleteRequestTopic(Named):
    partitions: list[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition])


class OffsetDeleteRequest(Message, api_key=47, versions="0"):
    group_id: str = field("string")
    topics: list[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic])


class OffsetDeleteResponsePartition(ErrorOfPartition):
    """Of one partition of the request."""


class OffsetDeleteResponseTopic(Named):
    partitions: list[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition])


class OffsetDeleteResponse(Message, api_key=47, versions="0"):
    error_code: int = field("int16")
    throttle_time_ms: int = field("int32", default=0)
    topics: list[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], default=[])
