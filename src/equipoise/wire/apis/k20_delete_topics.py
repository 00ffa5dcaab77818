"""DeleteTopics (20): topics to remove, by name or id.

v1  the first served; throttle time
v2  throttled answers leave at once
v3  TOPIC_DELETION_DISABLED may be answered
v4  flexible
v5  error_message; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v6  topics by name or id (KIP-516)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field("string", nullable=True, default=None)
    topic_id: bytes = field("uuid", default=ZERO_UUID)


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field([DeleteTopicState], "6+", default=[])
    topic_names: list[str] = field(["string"], "0-5", default=[])
    timeout_ms: int = field("int32")


class DeletableTopicResult(Struct):
    name: str | None = field("string", nullable="6+")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)
    error_code: int = field("int16")
    error_message: str | None = field("string", "5+", nullable=True, default=None)


class DeleteTopicsResponse(Throttled, Message, api_key=20, versions="1-6", flexible="4+"):
    responses: list[DeletableTopicResult] = field([DeletableTopicResult])
