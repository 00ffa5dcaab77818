"""Every exception that a user may meet, in one place.

`EquipoiseError` is the root. `UsageError`: the call or a setting is wrong. `ProtocolError`: the peer broke Kafka's
protocol. `KafkaConnectionError`: a broker cannot be reached; `TlsError` is its kind for TLS. `KafkaError`: a broker
answered with an error; `code` is Kafka's number for it. Its subclasses have Kafka's names; `AuthenticationError` is a
login that is refused, `AuthorizationError` an operation that ACLs deny. Those of a transaction say what to do next:
`TransactionAbortableError` to abort, `TransactionFatalError` to close the producer, `TransactionTimeoutError` to call
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.client.fetch.subscription_state import (
        LogTruncationError,
        NoOffsetForPartitionError,
        OffsetOutOfRangeError,
        TopicReplacedError,
    )
    from equipoise.client.net.errors import AuthenticationError, KafkaConnectionError, TlsError
    from equipoise.client.transactions.errors import (
        LostTransactionError,
        ProducerFencedError,
        TransactionAbortableError,
        TransactionFatalError,
        TransactionTimeoutError,
    )
    from equipoise.member.errors import (
        CommitFailedError,
        FencedInstanceIdError,
        RebalanceInProgressError,
    )
    from equipoise.security.denials import AuthorizationError
    from equipoise.spark.pipeline.errors import PipelineError
    from equipoise.wire.errors import (
        EquipoiseError,
        ErrorCode,
        KafkaError,
        ProtocolError,
        UsageError,
    )
    from equipoise.zookeeper.protocol.assignment import UnequalSubscriptionsError
    from equipoise.zookeeper.protocol.errors import (
        AlreadyRegisteredError,
        ConsumerRebalanceFailedError,
        InconsistentStrategyError,
        NotRegisteredError,
        OwnershipLostError,
        ZooKeeperError,
    )
    from equipoise.zookeeper.server import ZooKeeperUnavailable
    from equipoise.zookeeper.streams import ConsumerTimeoutError

__all__ = [
    "AlreadyRegisteredError",
    "AuthenticationError",
    "AuthorizationError",
    "CommitFailedError",
    "ConsumerRebalanceFailedError",
    "ConsumerTimeoutError",
    "EquipoiseError",
    "ErrorCode",
    "FencedInstanceIdError",
    "InconsistentStrategyError",
    "KafkaConnectionError",
    "KafkaError",
    "LogTruncationError",
    "LostTransactionError",
    "NoOffsetForPartitionError",
    "NotRegisteredError",
    "OffsetOutOfRangeError",
    "OwnershipLostError",
    "PipelineError",
    "ProducerFencedError",
    "ProtocolError",
    "RebalanceInProgressError",
    "TlsError",
    "TopicReplacedError",
    "TransactionAbortableError",
    "TransactionFatalError",
    "TransactionTimeoutError",
    "UnequalSubscriptionsError",
    "UsageError",
    "ZooKeeperError",
    "ZooKeeperUnavailable",
]

_HOMES = {
    "equipoise.client.net.errors": ["AuthenticationError", "KafkaConnectionError", "TlsError"],
    "equipoise.client.fetch.subscription_state": [
        "LogTruncationError",
        "NoOffsetForPartitionError",
        "OffsetOutOfRangeError",
        "TopicReplacedError",
    ],
    "equipoise.client.transactions.errors": [
        "LostTransactionError",
        "ProducerFencedError",
        "TransactionAbortableError",
        "TransactionFatalError",
        "TransactionTimeoutError",
    ],
    "equipoise.member.errors": ["CommitFailedError", "FencedInstanceIdError", "RebalanceInProgressError"],
    "equipoise.security.denials": ["AuthorizationError"],
    "equipoise.spark.pipeline.errors": ["PipelineError"],
    "equipoise.wire.errors": ["EquipoiseError", "ErrorCode", "KafkaError", "ProtocolError", "UsageError"],
    "equipoise.zookeeper.protocol.assignment": ["UnequalSubscriptionsError"],
    "equipoise.zookeeper.protocol.errors": [
        "AlreadyRegisteredError",
        "ConsumerRebalanceFailedError",
        "InconsistentStrategyError",
        "NotRegisteredError",
        "OwnershipLostError",
        "ZooKeeperError",
    ],
    "equipoise.zookeeper.server": ["ZooKeeperUnavailable"],
    "equipoise.zookeeper.streams": ["ConsumerTimeoutError"],
}
_load = importer(__name__, {name: home for home, names in _HOMES.items() for name in names})


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
