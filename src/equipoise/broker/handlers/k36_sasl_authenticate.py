"""SaslAuthenticate (36): one step of a SASL exchange; outside of one ILLEGAL_SASL_STATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_TOO_LATE = "SaslAuthenticate request received after successful authentication"


def handle(server: Server, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse | None:
    """Takes the client's token (KafkaApis is for connections that need none)."""
    authenticator = call.connection.authenticator
    if authenticator is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE)
    return authenticator.authenticate(bytes(request.auth_bytes), call)
