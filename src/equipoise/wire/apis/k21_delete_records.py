"""DeleteRecords (21): moves the log start of partitions forward; offset -1 is the high watermark.

v1  throttled answers leave at once
v2  flexible
"""

from __future__ import annotations

from equipoise.wire.apis.common import Named, OfPartition, Throttled
from equipoise.wire.schema import Message, field


class DeleteRecordsPartition(OfPartition):
    offset: int = field("int64")


class DeleteRecordsTopic(Named):
    partitions: list[DeleteRecordsPartition] = field([DeleteRecordsPartition])


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field([DeleteRecordsTopic])
    timeout_ms: int = field("int32")


class DeleteRecordsPartitionResult(OfPartition):
    low_watermark: int = field("int64")
    error_code: int = field("int16")


class DeleteRecordsTopicResult(Named):
    partitions: list[DeleteRecordsPartitionResult] = field([DeleteRecordsPartitionResult])


class DeleteRecordsResponse(Throttled, Message, api_key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopicResult] = field([DeleteRecordsTopicResult])
