"""AlterConfigs (33): replaces all configs of a resource; what is not named goes back to its default.

v1  throttled answers leave at once
v2  flexible
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class AlterableConfig(Struct):
    name: str = field("string")
    value: str | None = field("string", nullable=True)


class AlterConfigsResource(Struct):
    resource_type: int = field("int8")
    resource_name: str = field("string")
    configs: list[AlterableConfig] = field([AlterableConfig])


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = field([AlterConfigsResource])
    validate_only: bool = field("bool", default=False)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    resource_type: int = field("int8")
    resource_name: str = field("string")


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse])
