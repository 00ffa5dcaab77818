"""A partition has one owner at any instant; an application is told deltas that add up."""

from __future__ import annotations

from equipoise.coordinator.shard import Shard
from equipoise.member import Callback, CallbackKind, MemberState, TopicPartition
from equipoise.member.partitions import Owned
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.observer import Observer
from equipoise.simulate.world import GROUP, World
from equipoise.wire.consumer_protocol import NO_GENERATION

_NOTHING: Owned = frozenset()


class Owners(Observer):
    """Two applications own a partition only if one of them is out of the group, and has not heard of it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def stepped(self, shard: Shard) -> None:
        """After every step of the coordinator."""
        if shard is self._world.shard:
            self._check(shard)

    def called_back(self, name: str, callback: Callback) -> None:
        """An application is given partitions."""
        if callback.kind is CallbackKind.ASSIGNED and callback.partitions:
            self._check(self._world.shard)

    def _check(self, shard: Shard) -> None:
        seen: set[TopicPartition] = set()
        for name, consumer in self._world.consumers.items():
            owned = owned_by(consumer)
            if owned and is_member(shard, consumer):
                if not seen.isdisjoint(owned):
                    raise AssertionError(self._told(shard, min(seen & owned), name))
                seen |= owned

    def _told(self, shard: Shard, one: TopicPartition, second: str) -> str:
        owners = (
            name for name, other in self._world.consumers.items() if one in owned_by(other) and is_member(shard, other)
        )
        return f"{one.topic}:{one.partition} is owned by {next(owners)} and {second}"


def is_member(shard: Shard, consumer: Consumer) -> bool:
    """Whether both sides think so. Who was removed and has not heard of it may still think that it owns."""
    member = consumer.member
    if member.generation_id == NO_GENERATION:
        return False
    group = shard.consumer_groups.get(GROUP)
    if group is None:
        classic = shard.groups.get(GROUP)
        if classic is None or member.member_id not in classic.members:
            return False
        is_on_its_way = member.state is MemberState.PREPARING_REBALANCE and not member.config.is_static
        return member.generation_id == classic.generation_id or is_on_its_way
    known = group.members.get(member.member_id)
    if known is not None and known.classic is not None:
        # After a crash behind a downgrade the log does not say what a member had that has not rejoined; nor does
        # Kafka's. Its generation is refused.
        return member.generation_id in (known.member_epoch, known.previous_member_epoch)
    return known is not None and known.member_epoch > 0


def owned_by(consumer: Consumer) -> Owned:
    """Told to the application, and not taken back yet."""
    member = consumer.member
    if not member.callbacks:
        return member.assignment
    running = 1 if consumer.is_in_callback else 0
    untold = [one.partitions for one in list(member.callbacks)[running:] if one.kind is CallbackKind.ASSIGNED]
    held = [one.partitions for one in member.callbacks if one.kind is CallbackKind.REVOKED]
    return member.assignment.difference(*untold).union(*held)


class ToldDeltas(Observer):
    """What an application has been given and has not given back is what its member thinks that it has."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told: dict[Consumer, Owned] = {}

    def called_back(self, name: str, callback: Callback) -> None:
        """The delta fits what was told before."""
        consumer = self._world.consumers.get(name)
        if consumer is None:
            return
        had = self._told.get(consumer, _NOTHING)
        if callback.kind is CallbackKind.ASSIGNED:
            assert not callback.partitions & had, f"{name} is assigned what it has"
            self._told[consumer] = had | callback.partitions
        else:
            assert callback.partitions <= had, f"{name} gives back what it was never assigned"
            self._told[consumer] = had - callback.partitions
        assert consumer.member.readable <= self._told[consumer], f"{name} reads what its application was not told of"
