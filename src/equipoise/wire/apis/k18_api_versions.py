"""ApiVersions (18): which APIs and versions the broker serves. The response header is v0 in every version.

v1  throttle time
v2  throttled answers leave at once
v3  flexible; the client's software, features (KIP-511, 584)
v4  a supported feature may have min_version 0; before, such a feature must be left out
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named
from equipoise.wire.schema import Message, Struct, field


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: str = field("string", "3+", default="")
    client_software_version: str = field("string", "3+", default="")


class ApiVersion(Struct):
    api_key: int = field("int16")
    min_version: int = field("int16")
    max_version: int = field("int16")


class SupportedFeatureKey(Named):
    min_version: int = field("int16")
    max_version: int = field("int16")


class FinalizedFeatureKey(Named):
    max_version_level: int = field("int16")
    min_version_level: int = field("int16")


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = field("int16")
    api_keys: list[ApiVersion] = field([ApiVersion])
    throttle_time_ms: int = field("int32", "1+", default=0)
    supported_features: list[SupportedFeatureKey] = field([SupportedFeatureKey], "3+", tag=0, default=[])
    finalized_features_epoch: int = field("int64", "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field([FinalizedFeatureKey], "3+", tag=2, default=[])
    zk_migration_ready: bool = field("bool", "3+", tag=3, default=False)
