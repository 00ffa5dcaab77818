"""Incremental groups to test: a coordinator that knows the topic t, and classic clients.

ctx = Kept(partitions=6)
a, b = ctx.guests("a", "b")             # a Stable group, which the coordinator keeps as an incremental one
c = ctx.entered("c")                    # has joined, and not yet synced
assert a.told is ErrorCode.REBALANCE_IN_PROGRESS
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equipoise.coordinator.consumer.settings import GroupSettings
from equipoise.coordinator.incremental.data import Incremental
from equipoise.simulate import Call
from equipoise.wire.consumer_protocol import Subscription, encode_subscription
from equipoise.wire.errors import ErrorCode
from tests.consumer_guests.mixed import Guest, Mixed
from tests.incremental.hunting import check_group
from tests.spec.context import TOPIC, partitions_in


class Kept(Mixed):
    """A coordinator that keeps all groups it can as incremental ones."""

    def __init__(self, partitions: int = 6, **config: Any) -> None:
        super().__init__(partitions, **{"group_rebalance_incremental": "all", **config})

    def guest(self, name: str, *, eager: bool = False, **settings: Any) -> One:
        return One(self, name, eager=eager, **settings)

    def members(self, *names: str, **settings: Any) -> list[One]:
        """A Stable group, kept incremental."""
        found = self.guests(*names, **settings)
        assert not self.is_classic
        return [one for one in found if isinstance(one, One)]

    def members_of_a_classic_group(self, *names: str, **settings: Any) -> list[One]:
        """A Stable group that is not kept incremental."""
        found = self.guests(*names, **settings)
        assert self.is_classic
        return [one for one in found if isinstance(one, One)]

    def entered(self, name: str, **settings: Any) -> One:
        one = self.guest(name, **settings)
        assert one.enter().error is ErrorCode.NONE
        return one

    @property
    def kept(self) -> Incremental:
        assert self.consumer_group.incremental is not None
        return self.consumer_group.incremental

    @property
    def word(self) -> str:
        return self.list()[0].group_state

    def set_mode(self, mode: str) -> None:
        """A config of the group itself."""
        settings = self.shard.settings_of("other")
        self.shard.own_settings = {"g": GroupSettings(*settings[:3], mode)}

    def check(self) -> None:
        if "g" in self.shard.consumer_groups:
            check_group(self.consumer_group)


class One(Guest):
    """A classic client that does one thing at a time."""

    @property
    def told(self) -> ErrorCode:
        """By a heartbeat."""
        return self.heartbeat().error

    def offer(self, owned: Iterable[int] | None = None, topics: Iterable[str] = (TOPIC,), **fields: Any) -> One:
        """Its next JoinGroup says that it owns these, or what it owns."""
        numbers = sorted(self.owned if owned is None else owned)
        found = Subscription(topics=list(topics), owned_partitions={TOPIC: numbers} if numbers else {}, **fields)
        name = "range" if self.is_eager else "cooperative-sticky"
        self.protocols = [(name, encode_subscription(found, self.metadata_version))]
        return self

    def again(self, owned: Iterable[int] | None = None) -> Call:
        """Rejoins with these claims, or with what it owns."""
        self.offer(owned)
        return self.join()

    def got(self) -> set[int]:
        """SyncGroup, answered at once; it takes what it is given."""
        call = self.sync()
        assert call.error is ErrorCode.NONE
        self.owned = set(partitions_in(self.assignment))
        return self.owned

    def late(self, call: Call) -> set[int]:
        """The answer of a SyncGroup that was parked."""
        assert call.error is ErrorCode.NONE
        self.assignment = call.reply.assignment
        self.owned = set(partitions_in(self.assignment))
        return self.owned

    def yield_up(self) -> set[int]:
        """As a cooperative loser: joins, hears what is left, gives up the rest, joins again; what it has then."""
        assert self.told is ErrorCode.REBALANCE_IN_PROGRESS
        assert self.again().error is ErrorCode.NONE
        self.got()
        assert self.again().error is ErrorCode.NONE
        return self.got()
