"""OffsetFetch (9): the committed positions of a group; from v8 of several groups.

v1  the first served; offsets kept by the broker
v2  null topics means all; a top-level error_code
v3  throttle time
v4  throttled answers leave at once
v5  committed_leader_epoch
v6  flexible
v7  require_stable; UNSTABLE_OFFSET_COMMIT may be answered (KIP-447)
v8  groups in place of one group (KIP-709)
v9  member_id and member_epoch, checked for KIP-848 groups
v10 topic ids in place of names
"""

from __future__ import annotations

from equipoise.wire.apis.common import OfPartition
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class OffsetFetchTopicKey(Struct, shared=True):
    """A topic by its name, later by its id."""

    name: str = field("string", "0-9", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)


class OffsetFetchRequestTopic(OffsetFetchTopicKey):
    partition_indexes: list[int] = field(["int32"])


class OffsetFetchRequestGroup(Struct):
    group_id: str = field("string")
    member_id: str | None = field("string", "9+", nullable=True, default=None)
    member_epoch: int = field("int32", "9+", default=-1)
    topics: list[OffsetFetchRequestTopic] | None = field([OffsetFetchRequestTopic], nullable=True)


class OffsetFetchRequest(Message, api_key=9, versions="1-10", flexible="6+"):
    group_id: str = field("string", "0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field([OffsetFetchRequestTopic], "0-7", nullable="2-7", default=[])
    groups: list[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], "8+", default=[])
    require_stable: bool = field("bool", "7+", default=False)


class OffsetFetchResponsePartition(OfPartition):
    committed_offset: int = field("int64")
    committed_leader_epoch: int = field("int32", "5+", default=-1)
    metadata: str | None = field("string", nullable=True, default="")
    error_code: int = field("int16")


class OffsetFetchResponseTopic(OffsetFetchTopicKey):
    partitions: list[OffsetFetchResponsePartition] = field([OffsetFetchResponsePartition])


class OffsetFetchResponseGroup(Struct):
    group_id: str = field("string")
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic])
    error_code: int = field("int16", default=0)


class OffsetFetchResponse(Message, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], "0-7", default=[])
    error_code: int = field("int16", "2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], "8+", default=[])
