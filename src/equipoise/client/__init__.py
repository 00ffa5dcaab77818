"""The client's side of the wire: consumers, producers, administration of topics, users and ACLs. Each name is
imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.client.admin import Admin
    from equipoise.client.consumer.async_consumer import AsyncConsumer
    from equipoise.client.consumer.consumer import Consumer
    from equipoise.client.fetch.records import ConsumerRecord
    from equipoise.client.fetch.subscription_state import (
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        TopicReplacedError,
    )
    from equipoise.client.group.listener import RebalanceListener
    from equipoise.client.net.blocking import Connection
    from equipoise.client.net.errors import KafkaConnectionError
    from equipoise.client.producer.async_producer import AsyncProducer
    from equipoise.client.producer.delivery import RecordMetadata
    from equipoise.client.producer.producer import Producer
    from equipoise.client.transactions.errors import (
        ProducerFencedError,
        TransactionAbortableError,
        TransactionFatalError,
        TransactionTimeoutError,
    )
    from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
    from equipoise.member import (
        CommitFailedError,
        FencedInstanceIdError,
        OffsetAndMetadata,
        RebalanceInProgressError,
        SubscriptionPattern,
        TopicPartition,
    )
    from equipoise.security.acls import (
        Acl,
        AclFilter,
        AclOperation,
        AclPermissionType,
        PatternType,
        ResourcePattern,
        ResourceType,
    )

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPermissionType",
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "CommitFailedError",
    "Connection",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "FencedInstanceIdError",
    "KafkaConnectionError",
    "LogTruncationError",
    "NoOffsetForPartitionError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "PatternType",
    "Producer",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RecordMetadata",
    "ResourcePattern",
    "ResourceType",
    "SubscriptionPattern",
    "TopicPartition",
    "TopicReplacedError",
    "TransactionAbortableError",
    "TransactionFatalError",
    "TransactionTimeoutError",
]

_HOMES = {
    "Acl": "equipoise.security.acls",
    "AclFilter": "equipoise.security.acls",
    "AclOperation": "equipoise.security.acls",
    "AclPermissionType": "equipoise.security.acls",
    "Admin": "equipoise.client.admin",
    "AsyncConsumer": "equipoise.client.consumer.async_consumer",
    "AsyncProducer": "equipoise.client.producer.async_producer",
    "Connection": "equipoise.client.net.blocking",
    "Consumer": "equipoise.client.consumer.consumer",
    "ConsumerGroupMetadata": "equipoise.client.transactions.group_metadata",
    "ConsumerRecord": "equipoise.client.fetch.records",
    "KafkaConnectionError": "equipoise.client.net.errors",
    "LogTruncationError": "equipoise.client.fetch.subscription_state",
    "NoOffsetForPartitionError": "equipoise.client.fetch.subscription_state",
    "OffsetOutOfRangeError": "equipoise.client.fetch.subscription_state",
    "PatternType": "equipoise.security.acls",
    "Producer": "equipoise.client.producer.producer",
    "ProducerFencedError": "equipoise.client.transactions.errors",
    "RebalanceListener": "equipoise.client.group.listener",
    "RecordMetadata": "equipoise.client.producer.delivery",
    "ResourcePattern": "equipoise.security.acls",
    "ResourceType": "equipoise.security.acls",
    "TopicReplacedError": "equipoise.client.fetch.subscription_state",
    "TransactionAbortableError": "equipoise.client.transactions.errors",
    "TransactionFatalError": "equipoise.client.transactions.errors",
    "TransactionTimeoutError": "equipoise.client.transactions.errors",
}
_load = importer(__name__, {name: _HOMES.get(name, "equipoise.member") for name in __all__})


def __getattr__(name: str) -> Any:
    return _load(name)
