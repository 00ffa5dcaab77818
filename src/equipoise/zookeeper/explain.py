"""What a group looks like in ZooKeeper: who owns what, what nobody owns, what two claim. Only reads.

Members of the old kind do not tell their strategy; it is found out from what they own, as far as that can be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import UsageError
from equipoise.zookeeper.assignment import Strategy, consumer_of, share_of
from equipoise.zookeeper.group import Context, ZkGroup
from equipoise.zookeeper.layout import CONSUMERS

CANDIDATES = (Strategy("range"), Strategy("roundrobin"), Strategy("roundrobin", "[t,p]"))

Shares = Mapping[Strategy, Mapping[str, frozenset[TopicPartition]]]  # of each member, if all had the strategy


class MemberView(NamedTuple):
    consumer_id: str
    streams: int
    strategy: Strategy | None  # told, or the first that explains what it owns; None: none does
    tells: bool  # whether the strategy stands in its registration
    owned: frozenset[TopicPartition]
    claimed: frozenset[TopicPartition]  # what it should own by that strategy
    joined_ms: int


class OwnedPartition(NamedTuple):
    partition: TopicPartition
    thread: str
    since_ms: int
    offset: int | None
    is_member: bool  # False: the node outlives its consumer, or was made by hand


class UnownedPartition(NamedTuple):
    partition: TopicPartition
    since_ms: int | None  # of the last sign of an owner; None: there never was one
    sign: str


class GroupView(NamedTuple):
    group: str
    members: list[MemberView]
    owned: list[OwnedPartition]
    unowned: list[UnownedPartition]
    claimed_twice: dict[TopicPartition, list[str]]

    @property
    def strategies(self) -> set[Strategy]:
        return {member.strategy for member in self.members if member.strategy is not None}


def explain_group(client: KazooClient, group_id: str) -> GroupView:
    """UsageError: there is no such group."""
    groups = sorted(client.get_children(CONSUMERS)) if client.exists(CONSUMERS) else []
    if group_id not in groups:
        there = f"there are {', '.join(groups)}" if groups else "there are none"
        raise UsageError(f"ZooKeeper knows no group {group_id!r}: {there}")
    group = ZkGroup(client, group_id, lambda: False, tries_for_ever=False)
    context = _context(group)
    owned = _owned(group, context)
    members = _members(group, context, owned)
    claims: dict[TopicPartition, list[str]] = {}
    for member in members:
        for partition in member.claimed | member.owned:
            claims.setdefault(partition, []).append(member.consumer_id)
    return GroupView(
        group_id,
        members,
        owned,
        [_unowned(group, partition) for partition in sorted(group.unowned(context.partitions))],
        {partition: who for partition, who in sorted(claims.items()) if len(who) > 1},
    )


def _context(group: ZkGroup) -> Context:
    while True:
        with contextlib.suppress(NoNodeError):  # a member has left while this reads
            return group.context(exclude_internal=True)


def _owned(group: ZkGroup, context: Context) -> list[OwnedPartition]:
    found = []
    for topic in group.owned_topics():
        for number in group.owned_numbers(topic):
            partition = TopicPartition(topic, number)
            try:
                data, stat = group.client.get(group.paths.owner(partition))
            except NoNodeError:
                continue  # given up while this reads
            thread = data.decode()
            is_member = consumer_of(thread) in context.members
            found.append(OwnedPartition(partition, thread, stat.ctime, group.offset(partition), is_member))
    return sorted(found)


def _members(group: ZkGroup, context: Context, owned: list[OwnedPartition]) -> list[MemberView]:
    shares = {strategy: _shares(strategy, context) for strategy in CANDIDATES}
    found = []
    for consumer_id, member in context.members.items():
        mine = frozenset(one.partition for one in owned if consumer_of(one.thread) == consumer_id)
        told = member.registration.strategy
        strategy = told or _guess(consumer_id, mine, shares)
        claimed = _shares(strategy, context)[consumer_id] if strategy else frozenset()
        stat = group.client.exists(group.paths.registration(consumer_id))
        streams = sum(member.registration.subscription.values())
        joined = 0 if stat is None else stat.ctime
        found.append(MemberView(consumer_id, streams, strategy, told is not None, mine, claimed, joined))
    return found


def _shares(strategy: Strategy, context: Context) -> dict[str, frozenset[TopicPartition]]:
    decision = strategy.assign(context.topics, context.partitions)
    return {consumer_id: frozenset(share_of(consumer_id, decision)) for consumer_id in context.members}


def _guess(consumer_id: str, owned: frozenset[TopicPartition], shares: Shares) -> Strategy | None:
    """One by which it would own just that. Who has lost a conflict owns nothing, and fits none or any."""
    fitting = [strategy for strategy, share in shares.items() if share[consumer_id] == owned]
    return fitting[0] if fitting else None


def _unowned(group: ZkGroup, partition: TopicPartition) -> UnownedPartition:
    signs = {
        "last claimed or released": group.client.exists(group.paths.epoch(partition)),
        "last offset written": group.client.exists(group.paths.offset(partition)),
    }
    times = {sign: stat.mtime for sign, stat in signs.items() if stat is not None}
    if not times:
        return UnownedPartition(partition, None, "never owned")
    sign = max(times, key=lambda one: times[one])
    return UnownedPartition(partition, times[sign], sign)
