"""DescribeAcls (29): the ACLs that match a filter, by resource. Without an authorizer it is SECURITY_DISABLED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.acls import described, filter_of, require_acls
from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
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
        lambda pattern: described(pattern, acls.of_pattern(pattern, wanted)),
        lambda resources: DescribeAclsResponse(error_code=ErrorCode.NONE, resources=resources),
    )
    return None
