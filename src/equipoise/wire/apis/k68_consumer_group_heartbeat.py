"""ConsumerGroupHeartbeat (68): the one request of a KIP-848 member; null means unchanged since the last one.

v0  the coordinator may make the member id
v1  the client makes it; subscribed_topic_regex
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class HeartbeatTopicPartitions(Struct):
    topic_id: bytes = field("uuid")
    partitions: list[int] = field(["int32"])


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    group_id: str = field("string")
    member_id: str = field("string")
    member_epoch: int = field("int32")
    instance_id: str | None = field("string", nullable=True, default=None)
    rack_id: str | None = field("string", nullable=True, default=None)
    rebalance_timeout_ms: int = field("int32", default=-1)
    subscribed_topic_names: list[str] | None = field(["string"], nullable=True, default=None)
    subscribed_topic_regex: str | None = field("string", "1+", nullable=True, default=None)
    server_assignor: str | None = field("string", nullable=True, default=None)
    topic_partitions: list[HeartbeatTopicPartitions] | None = field(
        [HeartbeatTopicPartitions], nullable=True, default=None
    )


class HeartbeatAssignment(Struct):
    topic_partitions: list[HeartbeatTopicPartitions] = field([HeartbeatTopicPartitions])


class ConsumerGroupHeartbeatResponse(Throttled, WithError, Message, api_key=68, versions="0-1", flexible="0+"):
    member_id: str | None = field("string", nullable=True, default=None)
    member_epoch: int = field("int32", default=0)
    heartbeat_interval_ms: int = field("int32", default=0)
    assignment: HeartbeatAssignment | None = field(HeartbeatAssignment, nullable=True, default=None)
