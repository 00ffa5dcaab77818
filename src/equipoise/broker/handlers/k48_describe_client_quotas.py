"""DescribeClientQuotas (48)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.security.client_quotas import describe
from equipoise.wire.apis.k48_describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse | None:
    """Describes the quotas that match a filter (KafkaApis.handleDescribeClientQuotasRequest)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE_CONFIGS, CLUSTER)
        entries = describe(server.security.state, request.components, request.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    server.turns.encode_each(
        call,
        entries,
        lambda one: one,
        lambda found: DescribeClientQuotasResponse(error_code=ErrorCode.NONE, entries=found),
    )
    return None
