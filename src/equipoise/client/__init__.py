"""The client's side of the wire: consumers, producers, administration of topics. Names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.client.admin import Admin
    from equipoise.client.agreement import KafkaConnectionError
    from equipoise.client.async_consumer import AsyncConsumer
    from equipoise.client.connection import Connection
    from equipoise.client.consumer import Consumer
    from equipoise.client.listener import RebalanceListener
    from equipoise.client.positions import (
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        TopicReplacedError,
    )
    from equipoise.client.producer.async_producer import AsyncProducer
    from equipoise.client.producer.delivery import RecordMetadata
    from equipoise.client.producer.producer import Producer
    from equipoise.client.records import ConsumerRecord
    from equipoise.member import (
        CommitFailedError,
        FencedInstanceIdError,
        OffsetAndMetadata,
        RebalanceInProgressError,
        TopicPartition,
    )

__all__ = [
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "CommitFailedError",
    "Connection",
    "Consumer",
    "ConsumerRecord",
    "FencedInstanceIdError",
    "KafkaConnectionError",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "Producer",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RecordMetadata",
    "TopicPartition",
    "TopicReplacedError",
]

_HOMES = {
    "Admin": "equipoise.client.admin",
    "AsyncConsumer": "equipoise.client.async_consumer",
    "AsyncProducer": "equipoise.client.producer.async_producer",
    "Connection": "equipoise.client.connection",
    "Consumer": "equipoise.client.consumer",
    "ConsumerRecord": "equipoise.client.records",
    "KafkaConnectionError": "equipoise.client.agreement",
    "LogTruncationError": "equipoise.client.positions",
    "NoOffsetForPartitionError": "equipoise.client.positions",
    "OffsetOutOfRangeError": "equipoise.client.positions",
    "Producer": "equipoise.client.producer.producer",
    "RebalanceListener": "equipoise.client.listener",
    "RecordMetadata": "equipoise.client.producer.delivery",
    "TopicReplacedError": "equipoise.client.positions",
}
_load = importer(__name__, {name: _HOMES.get(name, "equipoise.member") for name in __all__})


def __getattr__(name: str) -> Any:
    return _load(name)
