"""ApiVersions (18). A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and our ranges.

The client's software name is kept with the connection: it tells later which clients can wait for a reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-4"


def handle(server: Server, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    call.connection.client_software = (request.client_software_name, request.client_software_version)
    call.connection.holding.known_as(request.client_software_name, call.client_id)
    return _answer(ErrorCode.NONE)


def refuse(server: Server, request: None, call: Call) -> ApiVersionsResponse:
    return _answer(ErrorCode.UNSUPPORTED_VERSION)


def _answer(error: ErrorCode) -> ApiVersionsResponse:
    from equipoise.broker.handlers import HANDLERS  # the table of all handlers, this one included

    keys = [
        ApiVersion(api_key=key, min_version=handler.advertised.first, max_version=handler.advertised.last)
        for key, handler in HANDLERS.items()
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys)
