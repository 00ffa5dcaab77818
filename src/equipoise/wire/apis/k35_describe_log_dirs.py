"""DescribeLogDirs (35): where partitions lie on disk, and how much they take.

v1  the first served; throttled answers leave at once
v2  flexible
v3  a top-level error_code
v4  total and usable bytes of the disk (KIP-827)
v5  is_cordoned (KIP-1066)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, OfPartition, Throttled
from equipoise.wire.schema import Message, Struct, field


class DescribableLogDirTopic(Struct):
    topic: str = field("string")
    partitions: list[int] = field(["int32"])


class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field([DescribableLogDirTopic], nullable=True)


class DescribeLogDirsPartition(OfPartition):
    partition_size: int = field("int64")
    offset_lag: int = field("int64")
    is_future_key: bool = field("bool")


class DescribeLogDirsTopic(Named):
    partitions: list[DescribeLogDirsPartition] = field([DescribeLogDirsPartition])


class DescribeLogDirsResult(Struct):
    error_code: int = field("int16")
    log_dir: str = field("string")
    topics: list[DescribeLogDirsTopic] = field([DescribeLogDirsTopic])
    total_bytes: int = field("int64", "4+", default=-1)
    usable_bytes: int = field("int64", "4+", default=-1)
    is_cordoned: bool = field("bool", "5+", default=False)


class DescribeLogDirsResponse(Throttled, Message, api_key=35, versions="1-5", flexible="2+"):
    error_code: int = field("int16", "3+", default=0)
    results: list[DescribeLogDirsResult] = field([DescribeLogDirsResult])
