"""OffsetCommit (8): positions of a group, from a member or from outside it. Errors are per partition only.

v2  the first served; retention_time_ms
v3  throttle time
v4  throttled answers leave at once
v5  retention is the broker's alone
v6  committed_leader_epoch
v7  group_instance_id
v8  flexible
v9  epochs of KIP-848 members; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be answered
v10 topic ids in place of names; UNKNOWN_TOPIC_ID may be answered
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, OfPartition
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class OffsetCommitRequestPartition(OfPartition):
    committed_offset: int = field("int64")
    committed_leader_epoch: int = field("int32", "6+", default=-1)
    committed_metadata: str | None = field("string", nullable=True, default="")


class OffsetCommitTopicKey(Struct, shared=True):
    """A topic by its name, later by its id."""

    name: str = field("string", "0-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)


class OffsetCommitRequestTopic(OffsetCommitTopicKey):
    partitions: list[OffsetCommitRequestPartition] = field([OffsetCommitRequestPartition])


class OffsetCommitRequest(Message, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = field("string")
    generation_id_or_member_epoch: int = field("int32", default=-1)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "7+", nullable=True, default=None)
    retention_time_ms: int = field("int64", "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic])


class OffsetCommitResponsePartition(ErrorOfPartition):
    """Of one partition of the request."""


class OffsetCommitResponseTopic(OffsetCommitTopicKey):
    partitions: list[OffsetCommitResponsePartition] = field([OffsetCommitResponsePartition])


class OffsetCommitResponse(Message, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic])
