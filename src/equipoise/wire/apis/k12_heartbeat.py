"""Heartbeat (12): a member says that it lives, and learns of rebalances.

v1  throttle time
v2  throttled answers leave at once
v3  group_instance_id (KIP-345)
v4  flexible
"""

from __future__ import annotations

from equipoise.wire.schema import Message, field


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    group_id: str = field("string")
    generation_id: int = field("int32")
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "3+", nullable=True, default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16")
