"""DescribeUserScramCredentials (50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.security.credentials import describe
from equipoise.wire.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(
    server: Server, request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse | None:
    """Says which credentials users have (KafkaApis.handleDescribeUserScramCredentialsRequest)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE, CLUSTER)
    except KafkaError as error:
        return _refused(request, error)
    server.turns.encode_each(
        call,
        describe(server.security.state, request.users),
        lambda one: one,
        lambda results: DescribeUserScramCredentialsResponse(error_code=ErrorCode.NONE, results=results),
    )
    return None


def _refused(request: DescribeUserScramCredentialsRequest, error: KafkaError) -> DescribeUserScramCredentialsResponse:
    """With a row for each user that was asked for, and no name in it
    (DescribeUserScramCredentialsRequest.getErrorResponse). If that is all users, Kafka fails inside and never answers.
    """
    code, why = error.code, str(error)
    row = DescribeUserScramCredentialsResult(user="", error_code=code, error_message=why, credential_infos=[])
    rows = [row] * len(request.users or ())
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=why, results=rows)
