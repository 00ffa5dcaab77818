"""One file per API, named by its key: the listing of this directory is the table of served APIs.

A handler module has `handle(server, request, call)`. That function returns the response (as bytes, if its body is
already encoded), or None if the reply comes later through `call`. It serves the versions of the API's table, but for
those in `VERSIONS` and `ADVERTISED` below: ApiVersions names them before any of the modules is imported.
`NAMES_PARTITIONS` is for requests that name partitions known from Metadata: such a request may not name many more than
there are. `RESPONSE` is the table of a response that has more than Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
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

VERSIONS = {  # of which fewer are served than its table has
    22: "0-5",  # Kafka 4.3 has v6 too (two-phase commit), as a version that is not stable yet
}
ADVERTISED = {  # of which ApiVersions must advertise more
    0: "0-13",
}
_API_VERSIONS = 18
_REPLY_HEADS = Struct(">ii"), Struct(">iix")  # size, correlation id, and in flexible versions: no tagged fields


class Handler:
    """An API that is served. Its module is imported with its first request."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.key = int(name[1:3])

    @property
    def api(self) -> Api:
        """Its tables."""
        return APIS[self.key]

    @cached_property
    def versions(self) -> VersionRange:
        """What is served."""
        return version_range(VERSIONS[self.key]) if self.key in VERSIONS else self.api.request.versions

    @cached_property
    def advertised(self) -> VersionRange:
        """What ApiVersions says."""
        return version_range(ADVERTISED[self.key]) if self.key in ADVERTISED else self.versions

    @cached_property
    def module(self) -> ModuleType:
        """Where it is served."""
        return import_module(f"{__name__}.{self.name}")

    @cached_property
    def handle(self) -> Callable[[Server, Any, Call], Message | bytes | None]:
        """Serves a request."""
        found: Callable[[Server, Any, Call], Message | bytes | None] = self.module.handle
        return found

    @property
    def response(self) -> type[Message]:
        """The table of its answer."""
        found: type[Message] = getattr(self.module, "RESPONSE", self.api.response)
        return found

    @property
    def names_partitions(self) -> bool:
        """Whether a request may name no more partitions than there are."""
        return getattr(self.module, "NAMES_PARTITIONS", False)


HANDLERS: dict[int, Handler] = {
    handler.key: handler
    for handler in (Handler(found.name) for found in iter_modules(__path__) if re.match(r"k\d\d_", found.name))
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
