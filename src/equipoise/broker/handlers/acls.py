"""The common part of the handlers of ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import (
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    StandardAuthorizer,
)
from equipoise.wire.apis.k29_describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource
from equipoise.wire.apis.k31_delete_acls import DeleteAclsFilter
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.security.acls import Acl, ResourcePattern


def require_acls(server: Server) -> StandardAuthorizer:
    """Raises SECURITY_DISABLED on a broker where no ACLs decide (AclApis)."""
    if server.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured: set authorizer.class.name")
    return server.acls


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """A filter as the wire has it."""
    return AclFilter(
        ResourceType(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation(asked.operation),
        AclPermissionType(asked.permission_type),
    )


def described(pattern: ResourcePattern, acls: list[Acl]) -> DescribeAclsResource | None:
    """The ACLs of one pattern as the wire has them; None: there are none."""
    if not acls:
        return None
    return DescribeAclsResource(
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        acls=[
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
            for acl in acls
        ],
    )
