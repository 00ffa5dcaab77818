"""JoinGroup (11): a member asks to be part of the next generation.

v0  the rebalance timeout is the session timeout
v1  rebalance_timeout_ms (KIP-62)
v2  throttle time
v3  throttled answers leave at once
v4  MEMBER_ID_REQUIRED, then a second join with the id (KIP-394)
v5  group_instance_id (KIP-345)
v6  flexible
v7  protocol_type answered, protocol_name may be null (KIP-559)
v8  reason (KIP-800)
v9  skip_assignment for a static leader that came back
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named
from equipoise.wire.schema import Message, Struct, field


class JoinGroupRequestProtocol(Named):
    metadata: bytes = field("bytes")


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = field("string")
    session_timeout_ms: int = field("int32")
    rebalance_timeout_ms: int = field("int32", "1+", default=-1)
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "5+", nullable=True, default=None)
    protocol_type: str = field("string")
    protocols: list[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol])
    reason: str | None = field("string", "8+", nullable=True, default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "5+", nullable=True, default=None)
    metadata: bytes = field("bytes")


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = field("int32", "2+", default=0)
    error_code: int = field("int16")
    generation_id: int = field("int32", default=-1)
    protocol_type: str | None = field("string", "7+", nullable=True, default=None)
    # "No protocol" is "" up to v6 and null from v7: no default is right in both.
    protocol_name: str | None = field("string", nullable="7+")
    leader: str = field("string", default="")
    skip_assignment: bool = field("bool", "9+", default=False)
    member_id: str = field("string")
    members: list[JoinGroupResponseMember] = field([JoinGroupResponseMember], default=[])
