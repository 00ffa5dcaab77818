"""DescribeUserScramCredentials (50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.security.credentials import describe
from equipoise.wire.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0"


def handle(
    server: Server, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    """Says which credentials users have (KafkaApis.handleDescribeUserScramCredentialsRequest)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE, CLUSTER)
    except KafkaError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=str(error), results=[])
    results = describe(server.security.state, request.users)
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, results=results)
