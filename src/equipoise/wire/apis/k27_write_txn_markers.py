"""WriteTxnMarkers (27): ends transactions in partitions; of brokers, and of tools that end a hanging transaction.

v1  the first that is left; flexible
v2  transaction_version (KIP-890)
"""

from __future__ import annotations

from equipoise.wire.apis.common import ErrorOfPartition, Named
from equipoise.wire.schema import Message, Struct, field


class WritableTxnMarkerTopic(Named):
    partition_indexes: list[int] = field(["int32"])


class WritableTxnMarker(Struct):
    producer_id: int = field("int64")
    producer_epoch: int = field("int16")
    transaction_result: bool = field("bool")  # True: committed
    topics: list[WritableTxnMarkerTopic] = field([WritableTxnMarkerTopic])
    coordinator_epoch: int = field("int32")
    transaction_version: int = field("int8", "2+", default=0)


class WriteTxnMarkersRequest(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = field([WritableTxnMarker])


class WritableTxnMarkerPartitionResult(ErrorOfPartition):
    """Of one partition of the request."""


class WritableTxnMarkerTopicResult(Named):
    partitions: list[WritableTxnMarkerPartitionResult] = field([WritableTxnMarkerPartitionResult])


class WritableTxnMarkerResult(Struct):
    producer_id: int = field("int64")
    topics: list[WritableTxnMarkerTopicResult] = field([WritableTxnMarkerTopicResult])


class WriteTxnMarkersResponse(Message, api_key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = field([WritableTxnMarkerResult])
