"""ApiVersions (18). An unknown version is answered in version 0 with UNSUPPORTED_VERSION and our ranges.

The connection keeps the client's software name (KIP-511): it later decides whether heartbeats may be held.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-4"
_FIRST_WITH_NAMES = 3
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # KIP-511; ApiVersionsRequest.isValid


def handle(server: Server, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse | None:
    """Names the versions that are served, and notes the software of the client (KafkaApis.handleApiVersionsRequest)."""
    names = request.client_software_name, request.client_software_version
    if call.version >= _FIRST_WITH_NAMES and not all(map(_LEGAL_NAME.fullmatch, names)):
        return _admitted(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]), call)
    call.connection.client_software = names
    call.connection.held_heartbeat.known_as(request.client_software_name, call.client_id)
    return _admitted(_answer(ErrorCode.NONE), call)


def refuse(server: Server, request: None, call: Call) -> ApiVersionsResponse | None:
    """Answers a version that is not served; the client tries again with a range it now knows (KIP-511)."""
    return _admitted(_answer(ErrorCode.UNSUPPORTED_VERSION), call)


def _admitted(response: ApiVersionsResponse, call: Call) -> ApiVersionsResponse | None:
    """Before authentication it is a step of it."""
    authenticator = call.connection.authenticator
    return response if authenticator is None else authenticator.api_versions(response, call)


def _answer(error: ErrorCode) -> ApiVersionsResponse:
    from equipoise.broker.handlers import HANDLERS  # the table of all handlers, this one included

    keys = [
        ApiVersion(api_key=key, min_version=handler.advertised.first, max_version=handler.advertised.last)
        for key, handler in HANDLERS.items()
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys)
