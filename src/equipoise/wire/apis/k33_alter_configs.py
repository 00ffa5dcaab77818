"""AlterConfigs (33): replaces all configs of a resource; what is not named goes back to its default.

v1  throttled answers leave at once
v2  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, Throttled, WithError
from equipoise.wire.apis.k32_describe_configs import ConfigResourceRows
from equipoise.wire.schema import Message, field


class AlterableConfig(Named):
    value: str | None = field("string", nullable=True)


class AlterConfigsResource(ConfigResourceRows):
    configs: list[AlterableConfig] = field([AlterableConfig])


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = field([AlterConfigsResource])
    validate_only: bool = field("bool", default=False)


class AlterConfigsResourceResponse(WithError, ConfigResourceRows):
    """Of one resource of the request."""


class AlterConfigsResponse(Throttled, Message, api_key=33, versions="0-2", flexible="2+"):
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse])
