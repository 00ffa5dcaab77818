"""ApiVersions (18). An unknown version is answered in version 0 with UNSUPPORTED_VERSION and our ranges.

The connection keeps the client's software name (KIP-511): it later decides whether heartbeats may be held.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from equipoise.wire.apis.k18_api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_FIRST_WITH_NAMES = 3
_FIRST_WITH_LEVEL_0 = 4
_CONSUMER_GROUP_APIS = frozenset({68, 69})
_GROUPS, _TRANSACTIONS = "group.version", "transaction.version"
_NEWEST = {_GROUPS: 1, _TRANSACTIONS: 2}
_FEATURES_EPOCH = 0  # of the finalized features, which never change here
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # KIP-511; ApiVersionsRequest.isValid


def handle(server: Server, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse | None:
    """Names the versions that are served, and notes the software of the client (KafkaApis.handleApiVersionsRequest)."""
    names = request.client_software_name, request.client_software_version
    if call.version >= _FIRST_WITH_NAMES and not all(map(_LEGAL_NAME.fullmatch, names)):
        return _admitted(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]), call)
    call.connection.client_software = names
    call.connection.held_heartbeat.known_as(request.client_software_name, call.client_id)
    if server.has_groups:
        server.group_coordinator.carriers.came((call.client_id, call.connection.client_host), call.now)
    return _admitted(_answer(server, ErrorCode.NONE, call.version), call)


def refuse(server: Server, request: None, call: Call) -> ApiVersionsResponse | None:
    """Answers a version that is not served; the client tries again with a range it now knows (KIP-511)."""
    return _admitted(_answer(server, ErrorCode.UNSUPPORTED_VERSION, 0), call)


def _admitted(response: ApiVersionsResponse, call: Call) -> ApiVersionsResponse | None:
    """Before authentication it is a step of it."""
    authenticator = call.connection.authenticator
    return response if authenticator is None else authenticator.api_versions(response, call)


def _answer(server: Server, error: ErrorCode, version: int) -> ApiVersionsResponse:
    """APIs of `consumer` groups are named only where they are served: clients then say so in their own words."""
    from equipoise.broker.handlers import HANDLERS  # the table of all handlers, this one included

    has_consumer_groups = server.config.serves_consumer_groups
    keys = [
        ApiVersion(api_key=key, min_version=handler.advertised.first, max_version=handler.advertised.last)
        for key, handler in HANDLERS.items()
        if has_consumer_groups or key not in _CONSUMER_GROUP_APIS
    ]
    response = ApiVersionsResponse(error_code=error, api_keys=keys)
    levels = {_TRANSACTIONS: server.config.transaction_version}
    if has_consumer_groups:
        levels = {_GROUPS: _NEWEST[_GROUPS]} | levels
    _add_features(response, levels, version)
    return response


def _add_features(response: ApiVersionsResponse, levels: dict[str, int], version: int) -> None:
    """Frameworks look for `group.version` before they choose `consumer` groups, and producers for `transaction.version`
    before they take a new epoch with each transaction (KIP-1022). Older clients cannot read a supported feature that
    begins with 0: before v4 it is left out. A level of 0 is not told. Rules A1.2 and T.61. Kafka: ApiVersionsResponse.
    """
    if version >= _FIRST_WITH_LEVEL_0:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=0, max_version=_NEWEST[name]) for name in levels
        ]
    response.finalized_features_epoch = _FEATURES_EPOCH
    response.finalized_features = [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level
    ]
