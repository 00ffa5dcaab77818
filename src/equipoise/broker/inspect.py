"""A view into a running broker, for tests: topics, groups, members, rebalances. The values are copies, taken on the
broker's loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.broker.groups.held_heartbeats import intervals_of
from equipoise.coordinator.classic.group import ClassicGroupMember, Group
from equipoise.coordinator.consumer.group import ConsumerGroup, Presence
from equipoise.coordinator.incremental.eligibility import offered_by, selected_protocol
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.shard_state import Status
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from equipoise.wire.errors import ProtocolError

if TYPE_CHECKING:
    from equipoise.broker.live_group import LiveGroup
    from equipoise.broker.running import Broker
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Topic

_SETTLING_S = 5.0  # in which the journal of a rebalance that has just ended is written, also on a busy machine
_LOOK_AGAIN_S = 0.001


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """A member at this moment."""

    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    partitions: frozenset[tuple[str, int]]  # topic and number; empty where its protocol is not the consumer's
    principal: str = ""  # as whom it came; empty, if it has not come since the broker started
    listener: str = ""


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group at this moment."""

    group_id: str
    state: str  # as DescribeGroups or ConsumerGroupDescribe says it: Empty, Stable, Reconciling ...
    generation_id: int  # of a `consumer` group: its epoch
    protocol: str | None
    members: list[MemberSnapshot]
    rebalances: list[Rebalance]  # the last hundred, each with its cause, phases and moves; the newest last

    @property
    def owners(self) -> dict[tuple[str, int], str]:
        """The client id of each partition's owner."""
        return {partition: member.client_id for member in self.members for partition in member.partitions}


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """A topic at this moment."""

    name: str
    partitions: int
    configs: dict[str, str]
    end_offsets: list[int]  # of each partition: how many records were written to it


class LiveGroups(Mapping[str, "LiveGroup"]):
    """`broker.groups["billing"]`. KeyError: there is no such group."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getitem__(self, group_id: str) -> LiveGroup:
        from equipoise.broker.live_group import LiveGroup

        until = time.monotonic() + _SETTLING_S
        while not self._broker.call(lambda server: _is_settled(server, group_id)) and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN_S)
        found = self._broker.call(lambda server: _describe(server, _find(server, group_id)))
        return LiveGroup.of(found, self._broker)

    def __iter__(self) -> Iterator[str]:
        return iter(
            self._broker.call(
                lambda server: [one.group_id for shard in server.group_coordinator.opened for one in shard.all_groups()]
            )
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


class TopicSnapshots(Mapping[str, TopicSnapshot]):
    """`broker.topics["orders"]`. KeyError: there is no such topic. Internal topics are included."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getitem__(self, name: str) -> TopicSnapshot:
        return self._broker.call(lambda server: _describe_topic(server, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._broker.call(lambda server: [topic.name for topic in server.topics]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _find(server: Server, group_id: str) -> Group | ConsumerGroup:
    for shard in server.group_coordinator.opened:
        if (group := shard.find(group_id)) is not None:
            return group
    raise KeyError(group_id)


def _is_settled(server: Server, group_id: str) -> bool:
    """Whether its last rebalance is told to the end. After a failover the group is there when its shard is loaded."""
    try:
        return not _find(server, group_id).journal.has_unsettled
    except KeyError:
        if any(shard.status is Status.LOADING for shard in server.group_coordinator.opened):
            return False
        raise


def _describe(server: Server, group: Group | ConsumerGroup) -> GroupSnapshot:
    if isinstance(group, ConsumerGroup):
        return _describe_consumer_group(server, group)
    is_consumers = group.protocol_type == PROTOCOL_TYPE
    members = [_describe_member(member, is_consumers) for member in group.members.values()]
    rebalances = [copy(entry) for entry in group.journal.entries]
    return GroupSnapshot(
        group.group_id, group.state.value, group.generation_id, group.protocol_name, members, rebalances
    )


def _describe_consumer_group(server: Server, group: ConsumerGroup) -> GroupSnapshot:
    name_of = server.group_coordinator.image.name_of
    members = [
        MemberSnapshot(
            member.member_id,
            member.client_id,
            member.client_host.lstrip("/"),
            member.instance_id,
            frozenset((name_of(topic_id) or "", number) for topic_id, number in member.assigned),
            *_origin(group.presence_of(member.member_id)),
        )
        for member in group.members.values()
    ]
    rebalances = [copy(entry) for entry in group.journal.entries]
    protocol = selected_protocol(offered_by(group)) if group.is_shown_classic else None
    return GroupSnapshot(group.group_id, group.state_word, group.group_epoch, protocol, members, rebalances)


def _describe_member(member: ClassicGroupMember, is_consumer: bool) -> MemberSnapshot:
    partitions = _partitions(member.assignment) if is_consumer else frozenset()
    host = member.client_host.lstrip("/")
    return MemberSnapshot(
        member.member_id, member.client_id, host, member.group_instance_id, partitions, *_origin(member)
    )


def _origin(member: ClassicGroupMember | Presence) -> tuple[str, str]:
    notes = intervals_of(member)
    return notes.principal, notes.listener


def _partitions(assignment: bytes) -> frozenset[tuple[str, int]]:
    try:
        found = decode_assignment(assignment).assigned_partitions if assignment else {}
    except ProtocolError:
        return frozenset()
    return frozenset((topic, number) for topic, numbers in found.items() for number in numbers)


def _describe_topic(server: Server, name: str) -> TopicSnapshot:
    topic: Topic | None = server.topics.get(name)
    if topic is None:
        raise KeyError(name)
    ends = [partition.log.high_watermark for partition in topic.partitions]
    return TopicSnapshot(topic.name, len(topic.partitions), dict(topic.configs), ends)
