"""DeleteGroups (42): removes empty groups and their offsets.

v1  throttled answers leave at once
v2  flexible
v3  error_message; GROUP_DELETION_FAILED may be answered
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = field(["string"])


class DeletableGroupResult(Struct):
    group_id: str = field("string")
    error_code: int = field("int16")
    error_message: str | None = field("string", "3+", nullable=True, default=None)


class DeleteGroupsResponse(Throttled, Message, api_key=42, versions="0-3", flexible="2+"):
    results: list[DeletableGroupResult] = field([DeletableGroupResult])
