"""DescribeAcls (29): the ACLs that match a filter, by resource. Without an authorizer it is SECURITY_DISABLED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.acls import filter_of, require_acls
from equipoise.security.acls import CLUSTER, Acl, AclOperation, ResourcePattern
from equipoise.wire.apis.k29_describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse | None:
    """Lists the ACLs (AclApis.handleDescribeAcls)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE, CLUSTER)
        acls = require_acls(server)
        wanted = filter_of(request)
        wanted.check()
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=str(error), resources=[])
    server.turns.encode_each(
        call,
        acls.patterns(wanted),
        lambda pattern: _described(pattern, acls.of_pattern(pattern, wanted)),
        lambda resources: DescribeAclsResponse(error_code=ErrorCode.NONE, resources=resources),
    )
    return None


def _described(pattern: ResourcePattern, acls: list[Acl]) -> DescribeAclsResource | None:
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
