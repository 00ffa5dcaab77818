"""LeaveGroup (13): members go, by their own will or an administrator's.

v1  throttle time
v2  throttled answers leave at once
v3  several members, each with its own answer (KIP-345)
v4  flexible
v5  reason (KIP-800)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class MemberIdentity(Struct):
    member_id: str = field("string")
    group_instance_id: str | None = field("string", nullable=True, default=None)
    reason: str | None = field("string", "5+", nullable=True, default=None)


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = field("string")
    member_id: str = field("string", "0-2", default="")
    members: list[MemberIdentity] = field([MemberIdentity], "3+", default=[])


class MemberResponse(Struct):
    member_id: str = field("string")
    group_instance_id: str | None = field("string", nullable=True, default=None)
    error_code: int = field("int16")


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16")
    members: list[MemberResponse] = field([MemberResponse], "3+", default=[])
