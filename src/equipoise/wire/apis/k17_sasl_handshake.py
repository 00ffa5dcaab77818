"""SaslHandshake (17): the mechanism a client wants to authenticate with. Never flexible.

v0  raw SASL tokens follow
v1  the tokens follow inside SaslAuthenticate requests (KIP-152)
"""

from __future__ import annotations

from equipoise.wire.schema import Message, field


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = field("string")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = field("int16")
    mechanisms: list[str] = field(["string"])
