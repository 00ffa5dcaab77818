"""One file per API, named by its key: the listing of this directory is the table of served APIs.

A handler module has `handle(server, request, call)`. That function returns the response (as bytes, if its body is
already encoded), or None if the reply comes later through `call`. It serves the versions of the API's table; `VERSIONS`
is for an API of which fewer are served, `ADVERTISED` for one of which ApiVersions must advertise more.
`NAMES_PARTITIONS` is for requests that name partitions known from Metadata: such a request may not name many more than
there are. `RESPONSE` is the table of a response that has more than Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from struct import Struct
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.broker.handlers import k18_api_versions
from equipoise.wire.apis import APIS, Api
from equipoise.wire.apis.headers import response_header_version
from equipoise.wire.compiler import Decoder, decoder, encoder
from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import Message, VersionRange, version_range

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_API_VERSIONS = 18
_REPLY_HEADS = Struct(">ii"), Struct(">iix")  # size, correlation id, and in flexible versions: no tagged fields


class Handler:
    """An API that is served."""

    def __init__(self, module: ModuleType) -> None:
        self.api: Api = APIS[int(module.__name__.rpartition(".k")[2][:2])]
        self.versions = _versions(module, "VERSIONS", self.api.request.versions)
        self.advertised = _versions(module, "ADVERTISED", self.versions)
        self.response: type[Message] = getattr(module, "RESPONSE", self.api.response)
        self.names_partitions: bool = getattr(module, "NAMES_PARTITIONS", False)
        self.handle: Callable[[Server, Any, Call], Message | bytes | None] = module.handle


def _versions(module: ModuleType, name: str, default: VersionRange) -> VersionRange:
    return version_range(getattr(module, name)) if hasattr(module, name) else default


HANDLERS: dict[int, Handler] = {
    handler.api.key: handler
    for handler in (
        Handler(import_module(f"{__name__}.{found.name}"))
        for found in iter_modules(__path__)
        if re.match(r"k\d\d_", found.name)
    )
}


class ReplyHead(Protocol):
    """What stands before a reply: its size and correlation id. A `struct.Struct`, or who counts beside it."""

    @property
    def size(self) -> int:
        """Its own bytes."""

    def pack(self, size: int, correlation_id: int, /) -> bytes:
        """The bytes."""


class Route:
    """The way of one API and version through the broker, its codecs compiled."""

    __slots__ = ("api_key", "api_name", "decode", "encode", "handle", "names_partitions", "reply_head", "version")

    def __init__(self, handler: Handler, version: int) -> None:
        self.version = version
        self.api_key = handler.api.key
        self.api_name = handler.api.name
        self.handle = handler.handle
        self.names_partitions = handler.names_partitions
        self.decode: Decoder = decoder(handler.api.request, version)
        self.encode = encoder(handler.response, version)
        self.reply_head: ReplyHead = _REPLY_HEADS[response_header_version(handler.api.key, version)]


class _UnknownVersionRoute(Route):
    """ApiVersions in a version we do not know: its body cannot be read, and the answer is in version 0."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(handler, 0)
        self.handle = k18_api_versions.refuse
        self.decode = lambda buf, pos, budget: None


def find_route(api_key: int, version: int) -> Route:
    """ProtocolError says what is served instead."""
    handler = HANDLERS.get(api_key)
    if handler is None:
        raise ProtocolError(f"API {api_key} ({APIS[api_key].name}) is not served; SUPPORTED.md lists what is")
    if version in handler.versions:
        return Route(handler, version)
    if api_key == _API_VERSIONS:
        return _UnknownVersionRoute(handler)
    raise ProtocolError(f"{handler.api.name} is served in versions {handler.versions}, not {version}")
