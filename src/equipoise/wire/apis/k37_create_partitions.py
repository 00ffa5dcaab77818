"""CreatePartitions (37): raises the number of partitions of topics.

v1  throttled answers leave at once
v2  flexible
v3  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, Throttled
from equipoise.wire.schema import Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(["int32"])


class CreatePartitionsTopic(Named):
    count: int = field("int32")
    assignments: list[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], nullable=True, default=None
    )


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = field([CreatePartitionsTopic])
    timeout_ms: int = field("int32")
    validate_only: bool = field("bool", default=False)


class CreatePartitionsTopicResult(Named):
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class CreatePartitionsResponse(Throttled, Message, api_key=37, versions="0-3", flexible="2+"):
    results: list[CreatePartitionsTopicResult] = field([CreatePartitionsTopicResult])
