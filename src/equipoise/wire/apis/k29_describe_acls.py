"""DescribeAcls (29): the access rules that match a filter.

v2  flexible
v3  resource type USER
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field

LITERAL = 3  # the pattern type of a resource by its own name


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    """A filter of null matches every name, principal or host."""

    resource_type_filter: int = field("int8")
    resource_name_filter: str | None = field("string", nullable=True)
    pattern_type_filter: int = field("int8", "1+", default=LITERAL)
    principal_filter: str | None = field("string", nullable=True)
    host_filter: str | None = field("string", nullable=True)
    operation: int = field("int8")
    permission_type: int = field("int8")


class AclDescription(Struct):
    principal: str = field("string")
    host: str = field("string")
    operation: int = field("int8")
    permission_type: int = field("int8")


class DescribeAclsResource(Struct):
    resource_type: int = field("int8")
    resource_name: str = field("string")
    pattern_type: int = field("int8", "1+", default=LITERAL)
    acls: list[AclDescription] = field([AclDescription])


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    resources: list[DescribeAclsResource] = field([DescribeAclsResource])
