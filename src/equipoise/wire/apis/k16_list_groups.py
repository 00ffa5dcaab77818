"""ListGroups (16): the groups this broker coordinates.

v1  throttle time
v2  throttled answers leave at once
v3  flexible
v4  states filtered and answered (KIP-518)
v5  types filtered and answered (KIP-848)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = field(["string"], "4+", default=[])
    types_filter: list[str] = field(["string"], "5+", default=[])


class ListedGroup(Struct):
    group_id: str = field("string")
    protocol_type: str = field("string")
    group_state: str = field("string", "4+", default="")
    group_type: str = field("string", "5+", default="")


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16")
    groups: list[ListedGroup] = field([ListedGroup], default=[])
