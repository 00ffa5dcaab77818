"""DeleteAcls (31): removes the access rules that match any of some filters.

v2  flexible
v3  resource type USER
"""

from __future__ import annotations

from equipoise.wire.apis.k29_describe_acls import LITERAL
from equipoise.wire.schema import Message, Struct, field


class DeleteAclsFilter(Struct):
    """A filter of null matches every name, principal or host."""

    resource_type_filter: int = field("int8")
    resource_name_filter: str | None = field("string", nullable=True)
    pattern_type_filter: int = field("int8", "1+", default=LITERAL)
    principal_filter: str | None = field("string", nullable=True)
    host_filter: str | None = field("string", nullable=True)
    operation: int = field("int8")
    permission_type: int = field("int8")


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = field([DeleteAclsFilter])


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    resource_type: int = field("int8")
    resource_name: str = field("string")
    pattern_type: int = field("int8", "1+", default=LITERAL)
    principal: str = field("string")
    host: str = field("string")
    operation: int = field("int8")
    permission_type: int = field("int8")


class DeleteAclsFilterResult(Struct):
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = field([DeleteAclsMatchingAcl])


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    filter_results: list[DeleteAclsFilterResult] = field([DeleteAclsFilterResult])
