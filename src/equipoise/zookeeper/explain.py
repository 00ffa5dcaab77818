"""Describes a group in ZooKeeper: owners, partitions without an owner, partitions with two claims. It only reads.

Old members do not publish their strategy; it is inferred from what they own, if possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kazoo.client import KazooClient

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import UsageError
from equipoise.zookeeper.protocol.assignment import Strategy, consumer_of, share_of
from equipoise.zookeeper.protocol.group import GroupNodes
from equipoise.zookeeper.protocol.layout import CONSUMERS
from equipoise.zookeeper.protocol.nodes import Exists, GetChildren, GetData
from equipoise.zookeeper.protocol.steps import Steps
from equipoise.zookeeper.protocol.views import AssignmentContext
from equipoise.zookeeper.runner import KazooRunner

CANDIDATES = (Strategy("range"), Strategy("roundrobin"), Strategy("roundrobin", "[t,p]"))

Shares = Mapping[Strategy, Mapping[str, frozenset[TopicPartition]]]  # of each member, if all had the strategy


class ZooKeeperMemberView(NamedTuple):
    """One registered consumer."""

    consumer_id: str
    streams: int
    strategy: Strategy | None  # told, or the first that explains what it owns; None: none does
    tells: bool  # whether the strategy stands in its registration
    owned: frozenset[TopicPartition]
    claimed: frozenset[TopicPartition]  # what it should own by that strategy
    joined_ms: int


class OwnedPartition(NamedTuple):
    """A partition with an owner node."""

    partition: TopicPartition
    thread: str
    since_ms: int
    offset: int | None
    is_member: bool  # False: the node outlives its consumer, or was made by hand


class UnownedPartition(NamedTuple):
    """A partition without an owner node. `sign` says which node was the last sign of an owner."""

    partition: TopicPartition
    since_ms: int | None  # of the last sign of an owner; None: there never was one
    sign: str


class ZooKeeperGroupView(NamedTuple):
    """A group at one moment."""

    group: str
    members: list[ZooKeeperMemberView]
    owned: list[OwnedPartition]
    unowned: list[UnownedPartition]
    claimed_twice: dict[TopicPartition, list[str]]

    @property
    def strategies(self) -> set[Strategy]:
        """The strategies in use: more than one, and partitions are claimed twice or never."""
        return {member.strategy for member in self.members if member.strategy is not None}


def explain_group(client: KazooClient, group_id: str) -> ZooKeeperGroupView:
    """UsageError: there is no such group."""
    return KazooRunner(client).run(group_view(group_id))


def group_view(group_id: str) -> Steps[ZooKeeperGroupView]:
    """Reads the group. UsageError names the groups that there are."""
    groups = sorted((yield from GetChildren(CONSUMERS)))
    if group_id not in groups:
        there = f"there are {', '.join(groups)}" if groups else "there are none"
        raise UsageError(f"ZooKeeper knows no group {group_id!r}: {there}")
    group = GroupNodes(group_id)
    context = yield from group.steady_context(exclude_internal=True)
    owned = yield from _owned(group, context)
    members = yield from _members(group, context, owned)
    claims: dict[TopicPartition, list[str]] = {}
    for member in members:
        for partition in member.claimed | member.owned:
            claims.setdefault(partition, []).append(member.consumer_id)
    twice = {partition: who for partition, who in sorted(claims.items()) if len(who) > 1}
    return ZooKeeperGroupView(group_id, members, owned, (yield from _unowned(group, context)), twice)


def _owned(group: GroupNodes, context: AssignmentContext) -> Steps[list[OwnedPartition]]:
    found = []
    for topic in (yield from GetChildren(group.paths.owners)):
        for number in (yield from group.owned_numbers(topic)):
            partition = TopicPartition(topic, number)
            (node,) = yield from GetData((group.paths.owner(partition),))
            if node is None:
                continue  # given up while this reads
            offsets = yield from group.offsets([partition])
            thread = node.data.decode(errors="replace")
            is_member = consumer_of(thread) in context.members
            found.append(OwnedPartition(partition, thread, node.stat.created_ms, offsets.get(partition), is_member))
    return sorted(found)


def _members(
    group: GroupNodes, context: AssignmentContext, owned: list[OwnedPartition]
) -> Steps[list[ZooKeeperMemberView]]:
    shares = {strategy: _shares(strategy, context) for strategy in CANDIDATES}
    stats = yield from Exists(tuple(map(group.paths.registration, context.members)))
    found = []
    for (consumer_id, member), stat in zip(context.members.items(), stats, strict=True):
        mine = frozenset(one.partition for one in owned if consumer_of(one.thread) == consumer_id)
        told = member.registration.strategy
        strategy = told or _guess(consumer_id, mine, shares)
        claimed = _shares(strategy, context)[consumer_id] if strategy else frozenset()
        streams = sum(member.registration.subscription.values())
        joined = 0 if stat is None else stat.created_ms
        found.append(ZooKeeperMemberView(consumer_id, streams, strategy, told is not None, mine, claimed, joined))
    return found


def _shares(strategy: Strategy, context: AssignmentContext) -> dict[str, frozenset[TopicPartition]]:
    decision = strategy.assign(context.topics, context.partitions)
    return {consumer_id: frozenset(share_of(consumer_id, decision)) for consumer_id in context.members}


def _guess(consumer_id: str, owned: frozenset[TopicPartition], shares: Shares) -> Strategy | None:
    """One by which it would own just that. Who has lost a conflict owns nothing, and fits none or any."""
    fitting = [strategy for strategy, share in shares.items() if share[consumer_id] == owned]
    return fitting[0] if fitting else None


def _unowned(group: GroupNodes, context: AssignmentContext) -> Steps[list[UnownedPartition]]:
    found = []
    for partition in sorted((yield from group.unowned(context.partitions))):
        stats = yield from Exists((group.paths.epoch(partition), group.paths.offset(partition)))
        signs = zip(("last claimed or released", "last offset written"), stats, strict=True)
        times = [(stat.modified_ms, sign) for sign, stat in signs if stat is not None]
        since, sign = max(times, default=(None, "never owned"))
        found.append(UnownedPartition(partition, since, sign))
    return found
