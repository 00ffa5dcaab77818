"""IncrementalAlterConfigs (44): changes single configs; config_operation 0 set, 1 delete, 2 append, 3 subtract.

v1  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.k33_alter_configs import AlterConfigsResourceResponse
from equipoise.wire.schema import Message, Struct, field


class IncrementalAlterableConfig(Struct):
    name: str = field("string")
    config_operation: int = field("int8")
    value: str | None = field("string", nullable=True)


class IncrementalAlterConfigsResource(Struct):
    resource_type: int = field("int8")
    resource_name: str = field("string")
    configs: list[IncrementalAlterableConfig] = field([IncrementalAlterableConfig])


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[IncrementalAlterConfigsResource] = field([IncrementalAlterConfigsResource])
    validate_only: bool = field("bool", default=False)


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = field("int32", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse])
