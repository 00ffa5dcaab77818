"""SyncGroup (14): the leader hands in the assignment, every member takes its own.

v1  throttle time
v2  throttled answers leave at once
v3  group_instance_id (KIP-345)
v4  flexible
v5  protocol_type and protocol_name in both directions, to be checked (KIP-559)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field("string")
    assignment: bytes = field("bytes")


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    group_id: str = field("string")
    generation_id: int = field("int32")
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "3+", nullable=True, default=None)
    protocol_type: str | None = field("string", "5+", nullable=True, default=None)
    protocol_name: str | None = field("string", "5+", nullable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment], default=[])


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16")
    protocol_type: str | None = field("string", "5+", nullable=True, default=None)
    protocol_name: str | None = field("string", "5+", nullable=True, default=None)
    assignment: bytes = field("bytes", default=b"")
