"""AlterUserScramCredentials (51): answered when the change is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.security.credentials import Alteration, refused
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.security.state import SecurityState
    from equipoise.wire.security_records import SecurityRecord


def handle(
    server: Server, request: AlterUserScramCredentialsRequest, call: Call
) -> AlterUserScramCredentialsResponse | None:
    """Sets and removes credentials (ControllerApis.handleAlterUserScramCredentials)."""
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
    except KafkaError as error:
        return AlterUserScramCredentialsResponse(results=refused(request, error))
    alteration: Alteration

    def decide(state: SecurityState) -> list[SecurityRecord]:
        nonlocal alteration
        alteration = Alteration(state, request)
        return alteration.records

    def reply(error: KafkaError | None) -> AlterUserScramCredentialsResponse:
        results = alteration.results() if error is None else refused(request, error)
        return AlterUserScramCredentialsResponse(results=results)

    server.security.answer(call, decide, reply)
    return None
