"""The errors of a ZooKeeper group."""

from __future__ import annotations

from equipoise.wire.errors import EquipoiseError


class ZooKeeperError(EquipoiseError):
    """ZooKeeper did not do what it was asked: a lost connection, a lost session, a node that is not there."""


class NotRegisteredError(ZooKeeperError):
    """A consumer has no node in its group: it has left, or its session has ended."""


class AlreadyRegisteredError(EquipoiseError):
    """Another session holds the consumer's id."""


class ConsumerRebalanceFailedError(EquipoiseError):
    """A consumer could not claim its partitions, however often it tried."""


class InconsistentStrategyError(EquipoiseError):
    """The group shares its partitions in another way: together its members would leave some unread without an error."""


class OwnershipLostError(EquipoiseError):
    """Offsets were not written: others own the partitions by now."""
