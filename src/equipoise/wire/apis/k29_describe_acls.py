"""DescribeAcls (29): the access rules that match a filter.

v2  flexible
v3  resource type USER
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field

LITERAL = 3  # the pattern type of a resource by its own name


class AclFilterRows(Struct, shared=True):
    """A filter of null matches every name, principal or host."""

    resource_type_filter: int = field("int8")
    resource_name_filter: str | None = field("string", nullable=True)
    pattern_type_filter: int = field("int8", "1+", default=LITERAL)
    principal_filter: str | None = field("string", nullable=True)
    host_filter: str | None = field("string", nullable=True)
    operation: int = field("int8")
    permission_type: int = field("int8")


class AclResource(Struct, shared=True):
    """What an ACL is about."""

    resource_type: int = field("int8")
    resource_name: str = field("string")
    pattern_type: int = field("int8", "1+", default=LITERAL)


class AclEntry(Struct, shared=True):
    """What an ACL allows or denies, to whom, from where."""

    principal: str = field("string")
    host: str = field("string")
    operation: int = field("int8")
    permission_type: int = field("int8")


class DescribeAclsRequest(AclFilterRows, Message, api_key=29, versions="1-3", flexible="2+"):
    """The ACLs that match are asked for."""


class AclDescription(AclEntry):
    """One ACL of the resource around it."""


class DescribeAclsResource(AclResource):
    acls: list[AclDescription] = field([AclDescription])


class DescribeAclsResponse(Throttled, WithError, Message, api_key=29, versions="1-3", flexible="2+"):
    resources: list[DescribeAclsResource] = field([DescribeAclsResource])
