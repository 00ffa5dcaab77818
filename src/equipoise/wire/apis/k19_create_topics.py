"""CreateTopics (19): new topics, by count of partitions or by assignment.

v2  the first served; throttle time
v3  throttled answers leave at once
v4  num_partitions and replication_factor may be -1, the broker's default (KIP-464)
v5  flexible; the new topic's configs answered (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v7  topic_id answered
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, OfPartition, Throttled
from equipoise.wire.apis.k32_describe_configs import ConfigEntry
from equipoise.wire.schema import ZERO_UUID, Message, field


class CreatableReplicaAssignment(OfPartition):
    broker_ids: list[int] = field(["int32"])


class CreatableTopicConfig(Named):
    value: str | None = field("string", nullable=True)


class CreatableTopic(Named):
    num_partitions: int = field("int32")
    replication_factor: int = field("int16")
    assignments: list[CreatableReplicaAssignment] = field([CreatableReplicaAssignment], default=[])
    configs: list[CreatableTopicConfig] = field([CreatableTopicConfig], default=[])


class CreateTopicsRequest(Message, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = field([CreatableTopic])
    timeout_ms: int = field("int32", default=60000)
    validate_only: bool = field("bool", default=False)


class CreatableTopicConfigs(ConfigEntry):
    """A config of the new topic."""


class CreatableTopicResult(Named):
    topic_id: bytes = field("uuid", "7+", default=ZERO_UUID)
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    topic_config_error_code: int = field("int16", "5+", tag=0, default=0)
    num_partitions: int = field("int32", "5+", default=-1)
    replication_factor: int = field("int16", "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field([CreatableTopicConfigs], "5+", nullable=True, default=[])


class CreateTopicsResponse(Throttled, Message, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopicResult] = field([CreatableTopicResult])
