"""DescribeConfigs (32): configs of topics, brokers and groups, with where each value comes from.

v1  the first served; config_source, synonyms (KIP-226)
v2  throttled answers leave at once
v3  config_type and documentation (KIP-569)
v4  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class ConfigResourceRows(Struct, shared=True):
    """What has configs: a topic, a broker, a group."""

    resource_type: int = field("int8")
    resource_name: str = field("string")


class ConfigEntry(Struct, shared=True):
    """A config, and where its value comes from."""

    name: str = field("string")
    value: str | None = field("string", nullable=True)
    read_only: bool = field("bool")
    config_source: int = field("int8", default=-1)
    is_sensitive: bool = field("bool")


class DescribeConfigsResource(ConfigResourceRows):
    configuration_keys: list[str] | None = field(["string"], nullable=True, default=None)


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field([DescribeConfigsResource])
    include_synonyms: bool = field("bool", default=False)
    include_documentation: bool = field("bool", "3+", default=False)


class DescribeConfigsSynonym(Named):
    value: str | None = field("string", nullable=True)
    source: int = field("int8")


class DescribeConfigsResourceResult(ConfigEntry):
    synonyms: list[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], default=[])
    config_type: int = field("int8", "3+", default=0)
    documentation: str | None = field("string", "3+", nullable=True, default=None)


class DescribeConfigsResult(WithError, ConfigResourceRows):
    configs: list[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult], default=[])


class DescribeConfigsResponse(Throttled, Message, api_key=32, versions="1-4", flexible="4+"):
    results: list[DescribeConfigsResult] = field([DescribeConfigsResult])
