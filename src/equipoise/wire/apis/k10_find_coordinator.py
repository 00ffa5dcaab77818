"""FindCoordinator (10): which broker keeps a group or a transactional id.

v0  groups only
v1  key_type (0 group, 1 transaction), throttle time, error_message
v2  throttled answers leave at once
v3  flexible
v4  many keys in one request (KIP-699)
v5  TRANSACTION_ABORTABLE may be answered
v6  key_type 2, share (KIP-932)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    key: str = field("string", "0-3", default="")
    key_type: int = field("int8", "1+", default=0)
    coordinator_keys: list[str] = field(["string"], "4+", default=[])


class Coordinator(Struct):
    key: str = field("string")
    node_id: int = field("int32")
    host: str = field("string")
    port: int = field("int32")
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default="")


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", "0-3", default=0)
    error_message: str | None = field("string", "1-3", nullable=True, default="")
    node_id: int = field("int32", "0-3", default=0)
    host: str = field("string", "0-3", default="")
    port: int = field("int32", "0-3", default=0)
    coordinators: list[Coordinator] = field([Coordinator], "4+", default=[])
