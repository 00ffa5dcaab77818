"""DescribeConfigs (32): configs of topics, brokers and groups, with where each value comes from.

v1  the first served; config_source, synonyms (KIP-226)
v2  throttled answers leave at once
v3  config_type and documentation (KIP-569)
v4  flexible
"""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field("int8")
    resource_name: str = field("string")
    configuration_keys: list[str] | None = field(["string"], nullable=True, default=None)


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field([DescribeConfigsResource])
    include_synonyms: bool = field("bool", default=False)
    include_documentation: bool = field("bool", "3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: str = field("string")
    value: str | None = field("string", nullable=True)
    source: int = field("int8")


class DescribeConfigsResourceResult(Struct):
    name: str = field("string")
    value: str | None = field("string", nullable=True)
    read_only: bool = field("bool")
    config_source: int = field("int8", default=-1)
    is_sensitive: bool = field("bool")
    synonyms: list[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], default=[])
    config_type: int = field("int8", "3+", default=0)
    documentation: str | None = field("string", "3+", nullable=True, default=None)


class DescribeConfigsResult(Struct):
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)
    resource_type: int = field("int8")
    resource_name: str = field("string")
    configs: list[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult], default=[])


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = field("int32", default=0)
    results: list[DescribeConfigsResult] = field([DescribeConfigsResult])
