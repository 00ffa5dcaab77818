"""The listener through which an application learns of rebalances."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from equipoise.member import TopicPartition


class RebalanceListener:
    """Subclass it and override what you need. Every method gets what changes, never the whole: that is
    `consumer.assignment()`. Called inside poll(), by the thread that polls; committing, seeking and asking for
    positions are allowed. With an AsyncConsumer the methods may be coroutines.
    """

    def on_assigned(self, consumer: Any, added: AbstractSet[TopicPartition]) -> Any:
        """After every rebalance, also if nothing was added. Reading begins when it returns."""

    def on_revoked(self, consumer: Any, removed: AbstractSet[TopicPartition]) -> Any:
        """Before these go to others: they are still owned, and offsets can be committed."""

    def on_lost(self, consumer: Any, lost: AbstractSet[TopicPartition]) -> Any:
        """These may belong to others already: the member was put out of the group. Nothing can be committed."""
