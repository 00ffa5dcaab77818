"""AlterClientQuotas (49): answered when the change is durable, and in force by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.security.client_quotas import QuotaAlteration, refused
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.security.state import SecurityState
    from equipoise.wire.security_records import SecurityRecord


def handle(server: Server, request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse | None:
    """Sets and removes quotas (ControllerApis.handleAlterClientQuotas)."""
    try:
        server.authorize(call, AclOperation.ALTER_CONFIGS, CLUSTER)
    except KafkaError as error:
        return AlterClientQuotasResponse(entries=refused(request.entries, error))
    alteration: QuotaAlteration

    def decide(state: SecurityState) -> list[SecurityRecord]:
        nonlocal alteration
        alteration = QuotaAlteration(state, request.entries)
        return [] if request.validate_only else alteration.records

    def reply(error: KafkaError | None) -> AlterClientQuotasResponse:
        results = alteration.results() if error is None else refused(request.entries, error)
        return AlterClientQuotasResponse(entries=results)

    server.security.answer(call, decide, reply)
    return None
