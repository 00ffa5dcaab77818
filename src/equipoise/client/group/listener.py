"""The listener through which an application learns of rebalances."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from equipoise.member import TopicPartition


class RebalanceListener:
    """Callbacks for rebalances; override what you need. Each method gets the partitions that change;
    `consumer.assignment()` is the whole. The thread that polls calls them inside poll(). They may commit, seek and
    ask for positions. With an AsyncConsumer the methods may be coroutines."""

    def on_assigned(self, consumer: Any, added: AbstractSet[TopicPartition]) -> Any:
        """Called after every rebalance, even if nothing was added. Reading begins when it returns."""

    def on_revoked(self, consumer: Any, removed: AbstractSet[TopicPartition]) -> Any:
        """Called before these partitions go to other members. They are still owned, and offsets can be committed."""

    def on_lost(self, consumer: Any, lost: AbstractSet[TopicPartition]) -> Any:
        """Called when the group has removed this member: others may own these partitions already. Commits are
        refused."""
