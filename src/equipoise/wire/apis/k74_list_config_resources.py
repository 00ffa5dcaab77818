"""ListConfigResources (74): what has configs of its own.

v0  client metrics alone (KIP-714)
v1  any type of resource (KIP-1142)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """Without `resource_types` all of them."""

    resource_types: list[int] = field(["int8"], "1+", default=[])


class ConfigResource(Struct):
    resource_name: str = field("string")
    resource_type: int = field("int8", "1+", default=16)


class ListConfigResourcesResponse(Throttled, Message, api_key=74, versions="0-1", flexible="0+"):
    error_code: int = field("int16")
    config_resources: list[ConfigResource] = field([ConfigResource])
