"""One file per API, named by its key: the listing of this directory is the table of what is served.

A handler module has `VERSIONS`, the versions it serves, and `handle(server, request, call)`, which returns
the response, or None when the reply comes later through `call`. `ADVERTISED` stands where ApiVersions must
say more than is served.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from equipoise.broker.handlers import (
    k00_produce,
    k01_fetch,
    k02_list_offsets,
    k03_metadata,
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k33_alter_configs,
    k37_create_partitions,
    k42_delete_groups,
    k44_incremental_alter_configs,
    k47_offset_delete,
    k60_describe_cluster,
    k75_describe_topic_partitions,
)
from equipoise.wire.apis import APIS, Api
from equipoise.wire.apis.headers import response_header_version
from equipoise.wire.compiler import decoder, encoder
from equipoise.wire.errors import ProtocolError
from equipoise.wire.schema import Message, VersionRange, version_range

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

MAX_REQUEST_ELEMENTS = 250_000  # array elements in one request: bounds memory and the time on the loop
_API_VERSIONS = 18


class Handler:
    """An API that is served."""

    def __init__(self, module: ModuleType) -> None:
        self.api: Api = APIS[int(module.__name__.rpartition(".k")[2][:2])]
        self.versions: VersionRange = version_range(module.VERSIONS)
        self.advertised: VersionRange = version_range(getattr(module, "ADVERTISED", module.VERSIONS))
        self.handle: Callable[[Server, Any, Call], Message | None] = module.handle


HANDLERS: dict[int, Handler] = {
    handler.api.key: handler
    for handler in map(
        Handler,
        (
            k00_produce,
            k01_fetch,
            k02_list_offsets,
            k03_metadata,
            k08_offset_commit,
            k09_offset_fetch,
            k10_find_coordinator,
            k11_join_group,
            k12_heartbeat,
            k13_leave_group,
            k14_sync_group,
            k15_describe_groups,
            k16_list_groups,
            k18_api_versions,
            k19_create_topics,
            k20_delete_topics,
            k21_delete_records,
            k22_init_producer_id,
            k23_offset_for_leader_epoch,
            k32_describe_configs,
            k33_alter_configs,
            k37_create_partitions,
            k42_delete_groups,
            k44_incremental_alter_configs,
            k47_offset_delete,
            k60_describe_cluster,
            k75_describe_topic_partitions,
        ),
    )
}


class Route:
    """The way of one API and version through the broker, its codecs compiled."""

    __slots__ = ("_decode", "encode", "flexible_reply", "handle", "version")

    def __init__(self, handler: Handler, version: int) -> None:
        self.version = version
        self.handle = handler.handle
        self._decode = decoder(handler.api.request, version)
        self.encode = encoder(handler.api.response, version)
        self.flexible_reply = response_header_version(handler.api.key, version) == 1

    def decode(self, frame: bytes | bytearray, pos: int) -> Any:
        return self._decode(frame, pos, MAX_REQUEST_ELEMENTS)


class _UnknownVersionRoute(Route):
    """ApiVersions in a version we do not know: its body cannot be read, and the answer is in version 0."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(handler, 0)
        self.handle = k18_api_versions.refuse

    def decode(self, frame: bytes | bytearray, pos: int) -> Any:
        return None


def find_route(api_key: int, version: int) -> Route:
    """ProtocolError says what is served instead."""
    handler = HANDLERS.get(api_key)
    if handler is None:
        name = APIS[api_key].name if api_key in APIS else "unknown"
        raise ProtocolError(f"API {api_key} ({name}) is not served; SUPPORTED.md lists what is")
    if version in handler.versions:
        return Route(handler, version)
    if api_key == _API_VERSIONS:
        return _UnknownVersionRoute(handler)
    raise ProtocolError(f"{handler.api.name} is served in versions {handler.versions}, not {version}")
