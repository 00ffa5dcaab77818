"""SaslHandshake (17): on a SASL listener the beginning of authentication; anywhere else ILLEGAL_SASL_STATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse | None:
    """Chooses the mechanism (KafkaApis is for connections that need none)."""
    authenticator = call.connection.authenticator
    if authenticator is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    return authenticator.handshake(request, call)
