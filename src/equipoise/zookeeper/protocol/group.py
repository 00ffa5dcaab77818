"""The nodes of a group, of its brokers and topics, which the consumers of both modes read and write."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.config import is_legal_name
from equipoise.zookeeper.protocol.errors import AlreadyRegisteredError, NotRegisteredError
from equipoise.zookeeper.protocol.layout import (
    BROKER_IDS,
    TOPICS,
    BrokerAddress,
    GroupPaths,
    Registration,
    broker_address,
    stored_offset,
    topic_path,
    topic_replicas,
)
from equipoise.zookeeper.protocol.nodes import Create, Delete, Exists, GetChildren, GetData, SessionId, SetData, Znode
from equipoise.zookeeper.protocol.steps import Steps
from equipoise.zookeeper.protocol.views import AssignmentContext, RegisteredConsumer


class GroupNodes:
    """One group by its nodes. It keeps nothing: every call reads ZooKeeper."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.paths = GroupPaths(group)

    # -- members

    def register(self, consumer_id: str, registration: Registration) -> Steps[None]:
        """AlreadyRegisteredError: the node is there, and another session's."""
        path = self.paths.registration(consumer_id)
        if (yield from Create(path, registration.to_json(), is_ephemeral=True)):
            return
        (stat,) = yield from Exists((path,))
        if stat is None or stat.ephemeral_owner != (yield from SessionId()):
            raise AlreadyRegisteredError(
                f"consumer {consumer_id} of group {self.group} is registered by another session: choose another "
                "consumer.id, or wait until that session ends"
            )

    def unregister(self, consumer_id: str) -> Steps[None]:
        """Deletes the registration; the other members rebalance."""
        yield from Delete(self.paths.registration(consumer_id))

    def members(self, consumer_ids: Sequence[str]) -> Steps[dict[str, RegisteredConsumer]]:
        """NotRegisteredError: one has gone meanwhile."""
        nodes = yield from GetData(tuple(map(self.paths.registration, consumer_ids)))
        return {consumer_id: _member(consumer_id, node) for consumer_id, node in zip(consumer_ids, nodes, strict=True)}

    def context(
        self, exclude_internal: bool, known: Mapping[str, RegisteredConsumer] | None = None
    ) -> Steps[AssignmentContext]:
        """What is known of members is not read again. A member that goes while this reads fails it, as it was."""
        before = known or {}
        ids = sorted((yield from GetChildren(self.paths.ids)))
        read = yield from self.members([one for one in ids if one not in before])
        members = {consumer_id: before.get(consumer_id) or read[consumer_id] for consumer_id in ids}
        has_patterns = any(member.registration.pattern != "static" for member in members.values())
        there = (yield from self.known_topics()) if has_patterns else []
        topics = {
            consumer_id: member.registration.topics(there, exclude_internal=exclude_internal)
            for consumer_id, member in members.items()
        }
        names = sorted({topic for mine in topics.values() for topic in mine})
        return AssignmentContext(members, topics, (yield from self.partitions(names)))

    def steady_context(self, exclude_internal: bool) -> Steps[AssignmentContext]:
        """Read again if a member leaves meanwhile."""
        while True:
            with contextlib.suppress(NotRegisteredError):
                return (yield from self.context(exclude_internal))

    # -- brokers and topics

    def brokers(self) -> Steps[list[BrokerAddress]]:
        """The addresses of the brokers that are alive now."""
        ids = sorted((yield from GetChildren(BROKER_IDS)))
        nodes = yield from GetData(tuple(f"{BROKER_IDS}/{broker_id}" for broker_id in ids))
        return [broker_address(broker_id, node.data) for broker_id, node in zip(ids, nodes, strict=True) if node]

    def known_topics(self) -> Steps[list[str]]:
        """The topics of the cluster, in order."""
        return sorted((yield from GetChildren(TOPICS)))

    def partitions(self, topics: Sequence[str]) -> Steps[dict[str, list[int]]]:
        """A topic that does not exist has none, and what a member calls a topic may be none."""
        legal = [topic for topic in topics if is_legal_name(topic)]
        nodes = yield from GetData(tuple(map(topic_path, legal)))
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        return found | {
            topic: sorted(topic_replicas(topic, node.data)) for topic, node in zip(legal, nodes, strict=True) if node
        }

    # -- owners

    def unowned(self, partitions: Mapping[str, Sequence[int]]) -> Steps[set[TopicPartition]]:
        """The partitions among these that have no owner node."""
        found = set()
        for topic in filter(partitions.get, partitions):
            owned = set((yield from self.owned_numbers(topic)))
            found |= {TopicPartition(topic, number) for number in partitions[topic] if number not in owned}
        return found

    def owned_numbers(self, topic: str) -> Steps[list[int]]:
        """The partitions of a topic that have an owner node. What is no number is no partition's."""
        numbers = yield from GetChildren(f"{self.paths.owners}/{topic}")
        return [int(number) for number in numbers if number.isascii() and number.isdigit()]

    def owner_sessions(self, partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
        """Of those that have an owner."""
        wanted = sorted(partitions)
        stats = yield from Exists(tuple(map(self.paths.owner, wanted)))
        return {partition: stat.ephemeral_owner for partition, stat in zip(wanted, stats, strict=True) if stat}

    # -- offsets

    def offsets(self, partitions: Sequence[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
        """Those that are there."""
        paths = tuple(map(self.paths.offset, partitions))
        nodes = yield from GetData(paths)
        found = [node and stored_offset(path, node.data) for path, node in zip(paths, nodes, strict=True)]
        return {partition: at for partition, at in zip(partitions, found, strict=True) if at is not None}

    def set_offset(self, partition: TopicPartition, offset: int) -> Steps[None]:
        """Neither the owner nor the offset before is compared."""
        path, data = self.paths.offset(partition), str(offset).encode()
        if not (yield from SetData(path, data)):
            yield from Create(path, data)


def _member(consumer_id: str, node: Znode | None) -> RegisteredConsumer:
    if node is None:
        raise NotRegisteredError(f"consumer {consumer_id} is not registered")
    return RegisteredConsumer(Registration.from_json(consumer_id, node.data), node.stat.created)
