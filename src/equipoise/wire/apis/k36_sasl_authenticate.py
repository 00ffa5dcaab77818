"""SaslAuthenticate (36): one step of a SASL exchange, after SaslHandshake v1.

v1  session_lifetime_ms, after which the client authenticates anew (KIP-368)
v2  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import WithError
from equipoise.wire.schema import Message, field


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field("bytes")


class SaslAuthenticateResponse(WithError, Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field("bytes", default=b"")
    session_lifetime_ms: int = field("int64", "1+", default=0)
