"""The headers before each message.

Request header v1: API key, version, correlation id, client id. Response header v0: correlation id. v2 and v1 of them,
for flexible messages, add tagged fields. They are written by hand, because the client id kept its two-byte length in
v2, which no table can express, and because every request passes here.
"""

from __future__ import annotations

import struct

from equipoise.wire.apis import APIS, UNKNOWN_APIS
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.wire.primitives import Fault, skip_tags
from equipoise.wire.schema import NEVER

_API_VERSIONS = 18
_NO_TAGS = b"\0"
_INT16_MAX = 32767
_REQUEST = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class _FlexibleFrom(dict[int, int]):
    """By API key, the first version whose headers carry tagged fields."""

    def __missing__(self, api_key: int) -> int:
        if api_key not in APIS:
            name = UNKNOWN_APIS.get(api_key, "unknown")
            raise ProtocolError(f"API key {api_key} ({name}) is not served; SUPPORTED.md lists what is")
        flexible = APIS[api_key].request.flexible
        found = self[api_key] = _INT16_MAX + 1 if flexible == NEVER else flexible.first
        return found


_FLEXIBLE_FROM = _FlexibleFrom()


def request_header_version(api_key: int, api_version: int) -> int:
    """Which header a request has: 2 in flexible versions."""
    return 2 if api_version >= _FLEXIBLE_FROM[api_key] else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """ApiVersions always has a v0 header: a client reads it before it knows the broker's versions."""
    return 1 if api_version >= _FLEXIBLE_FROM[api_key] and api_key != _API_VERSIONS else 0


def decode_request_header(buf: bytes | bytearray, pos: int = 0) -> tuple[int, int, int, str | None, int]:
    """Returns API key, API version, correlation id, client id, and the position of the body."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buf, pos)
        pos += _REQUEST.size
        client_id = None
        if length >= 0:
            client_id = buf[pos : pos + length].decode()
            pos += length
        elif length != -1:
            raise Fault(length)
        if api_version >= _FLEXIBLE_FROM[api_key]:
            tags = buf[pos]
            pos = skip_tags(buf, pos + 1, tags)[0] if tags else pos + 1
        if pos > len(buf):
            raise Fault(pos, len(buf))
    except (Fault, struct.error, IndexError, UnicodeDecodeError) as fault:
        raise ProtocolError(f"request header of {len(buf)} bytes: {_reason(fault)}") from None
    return api_key, api_version, correlation_id, client_id, pos


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, in the version that its API asks for."""
    name = b"" if client_id is None else client_id.encode()
    if len(name) > _INT16_MAX:
        raise UsageError(f"client id of {len(name)} bytes; at most {_INT16_MAX} fit into a request header")
    head = _REQUEST.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name))
    return head + name + (_NO_TAGS if request_header_version(api_key, api_version) == 2 else b"")


def decode_response_header(buf: bytes | bytearray, api_key: int, api_version: int, pos: int = 0) -> tuple[int, int]:
    """Returns the correlation id and the position of the body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buf, pos)
        pos += _CORRELATION_ID.size
        if response_header_version(api_key, api_version):
            tags = buf[pos]
            pos = skip_tags(buf, pos + 1, tags)[0] if tags else pos + 1
        if pos > len(buf):
            raise Fault(pos, len(buf))
    except (Fault, struct.error, IndexError) as fault:
        raise ProtocolError(f"response header of {len(buf)} bytes: {_reason(fault)}") from None
    return correlation_id, pos


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of a response, in the version that its API asks for."""
    return _CORRELATION_ID.pack(correlation_id) + _NO_TAGS * response_header_version(api_key, api_version)


def _reason(fault: Exception) -> str:
    return str(fault) if isinstance(fault, Fault | UnicodeDecodeError) else "its bytes are missing"
