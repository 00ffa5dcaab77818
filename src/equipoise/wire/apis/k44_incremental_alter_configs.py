"""IncrementalAlterConfigs (44): changes single configs; config_operation 0 set, 1 delete, 2 append, 3 subtract.

v1  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, Throttled
from equipoise.wire.apis.k32_describe_configs import ConfigResourceRows
from equipoise.wire.apis.k33_alter_configs import AlterConfigsResourceResponse
from equipoise.wire.schema import Message, field


class IncrementalAlterableConfig(Named):
    config_operation: int = field("int8")
    value: str | None = field("string", nullable=True)


class IncrementalAlterConfigsResource(ConfigResourceRows):
    configs: list[IncrementalAlterableConfig] = field([IncrementalAlterableConfig])


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: list[IncrementalAlterConfigsResource] = field([IncrementalAlterConfigsResource])
    validate_only: bool = field("bool", default=False)


class IncrementalAlterConfigsResponse(Throttled, Message, api_key=44, versions="0-1", flexible="1+"):
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse])
