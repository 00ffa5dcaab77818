"""The protocol before coordinators: consumers that share partitions by ZooKeeper alone.

Each name is imported at its first use: the pure parts, and the server, need no kazoo.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.zookeeper.connector import ConsumerRebalanceListener
    from equipoise.zookeeper.consumer import ZooKeeperConsumer
    from equipoise.zookeeper.protocol.errors import (
        ConsumerRebalanceFailedError,
        InconsistentStrategyError,
        OwnershipLostError,
    )
    from equipoise.zookeeper.protocol.layout import blacklist, whitelist
    from equipoise.zookeeper.registration import BrokerRegistration
    from equipoise.zookeeper.server import Ensemble, ZooKeeperServer, ZooKeeperUnavailable
    from equipoise.zookeeper.streams import ConsumerTimeoutError

__all__ = [
    "BrokerRegistration",
    "ConsumerRebalanceFailedError",
    "ConsumerRebalanceListener",
    "ConsumerTimeoutError",
    "Ensemble",
    "InconsistentStrategyError",
    "OwnershipLostError",
    "ZooKeeperConsumer",
    "ZooKeeperServer",
    "ZooKeeperUnavailable",
    "blacklist",
    "whitelist",
]

_HOMES = {
    "BrokerRegistration": "registration",
    "ConsumerRebalanceFailedError": "protocol.errors",
    "ConsumerRebalanceListener": "connector",
    "ConsumerTimeoutError": "streams",
    "Ensemble": "server",
    "InconsistentStrategyError": "protocol.errors",
    "OwnershipLostError": "protocol.errors",
    "ZooKeeperConsumer": "consumer",
    "ZooKeeperServer": "server",
    "ZooKeeperUnavailable": "server",
    "blacklist": "protocol.layout",
    "whitelist": "protocol.layout",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "kazoo":
            raise
        from equipoise.wire.errors import UsageError

        raise UsageError(f"{name} needs kazoo, a client of ZooKeeper: pip install 'equipoise[zookeeper]'") from None
