"""DescribeGroups (15): state, protocol and members of classic groups.

v1  throttle time
v2  throttled answers leave at once
v3  authorized operations
v4  group_instance_id (KIP-345)
v5  flexible
v6  GROUP_ID_NOT_FOUND with a message, where older versions answer a Dead group (KIP-1043)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    groups: list[str] = field(["string"])
    include_authorized_operations: bool = field("bool", "3+", default=False)


class DescribedGroupMember(Struct):
    member_id: str = field("string")
    group_instance_id: str | None = field("string", "4+", nullable=True, default=None)
    client_id: str = field("string")
    client_host: str = field("string")
    member_metadata: bytes = field("bytes")
    member_assignment: bytes = field("bytes")


class DescribedGroup(Struct):
    error_code: int = field("int16")
    error_message: str | None = field("string", "6+", nullable=True, default=None)
    group_id: str = field("string")
    group_state: str = field("string")
    protocol_type: str = field("string", default="")
    protocol_data: str = field("string", default="")
    members: list[DescribedGroupMember] = field([DescribedGroupMember], default=[])
    authorized_operations: int = field("int32", "3+", default=-(2**31))


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    groups: list[DescribedGroup] = field([DescribedGroup])
