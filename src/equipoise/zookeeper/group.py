"""A group in ZooKeeper, operation by operation: what the consumers of both modes read and write there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.retry import KazooRetry

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.assignment import Members
from equipoise.zookeeper.layout import (
    BROKER_IDS,
    TOPICS,
    BrokerAddress,
    GroupPaths,
    Registration,
    broker_address,
    topic_path,
    topic_replicas,
)
from equipoise.zookeeper.session import session_id


class AlreadyRegisteredError(EquipoiseError):
    """Another session holds the consumer's id."""


class Member(NamedTuple):
    registration: Registration
    created: int  # ZooKeeper's number of the change: who was first


class Context(NamedTuple):
    """What an assignment is made from. Separate reads, no common snapshot."""

    members: dict[str, Member]
    known_topics: list[str]
    topics: Members  # of each member, with its streams
    partitions: dict[str, list[int]]


class ZkGroup:
    """`is_closing` ends what would be tried for ever; `tries_for_ever` is how the old client treated every operation:

    repeated after a lost connection and after a lost session too, so that what began in a dead session is completed in
    the next. Without it an operation fails, and whoever asked for it decides.
    """

    def __init__(
        self, client: KazooClient, group: str, is_closing: Callable[[], bool], *, tries_for_ever: bool
    ) -> None:
        self.client = client
        self.group = group
        self.paths = GroupPaths(group)
        self._retry = KazooRetry(max_tries=-1 if tries_for_ever else 1, delay=0.05, max_delay=0.5, interrupt=is_closing)
        self._tries_for_ever = tries_for_ever

    @property
    def session_id(self) -> int:
        """0, which owns nothing, between two sessions."""
        return session_id(self.client)

    def call(self, operation: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        if not self._tries_for_ever:
            return operation(*arguments, **more)
        return self._retry.copy()(operation, *arguments, **more)

    # -- members

    def register(self, consumer_id: str, registration: Registration) -> None:
        """AlreadyRegisteredError: the node is there, and another session's."""
        path = self.paths.registration(consumer_id)
        try:
            self.call(self.client.create, path, registration.to_json(), ephemeral=True, makepath=True)
        except NodeExistsError:
            found = self.call(self.client.exists, path)
            if found is None or found.ephemeralOwner != self.session_id:
                raise AlreadyRegisteredError(
                    f"consumer {consumer_id} of group {self.group} is registered by another session: choose another "
                    "consumer.id, or wait until that session ends"
                ) from None

    def unregister(self, consumer_id: str) -> None:
        self._delete(self.paths.registration(consumer_id))

    def registration(self, consumer_id: str) -> Registration:
        return self.member(consumer_id).registration

    def member(self, consumer_id: str) -> Member:
        data, stat = self.call(self.client.get, self.paths.registration(consumer_id))
        return Member(Registration.from_json(consumer_id, data), stat.czxid)

    def member_ids(self) -> list[str]:
        return sorted(self._children(self.paths.ids))

    # -- brokers and topics

    def brokers(self) -> list[BrokerAddress]:
        found = []
        for broker_id in sorted(self._children(BROKER_IDS)):
            data = self._read(f"{BROKER_IDS}/{broker_id}")
            if data is not None:
                found.append(broker_address(broker_id, data))
        return found

    def known_topics(self) -> list[str]:
        return sorted(self._children(TOPICS))

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """A topic that does not exist has none."""
        found = {}
        for topic in topics:
            data = self._read(topic_path(topic))
            found[topic] = [] if data is None else sorted(topic_replicas(topic, data))
        return found

    def context(self, exclude_internal: bool, read_member: Callable[[str], Member] | None = None) -> Context:
        """A member that goes while this reads is NoNodeError, as it was."""
        read = read_member or self.member
        members = {consumer_id: read(consumer_id) for consumer_id in self.member_ids()}
        has_patterns = any(member.registration.pattern != "static" for member in members.values())
        known = self.known_topics() if has_patterns else []
        topics = {
            consumer_id: member.registration.topics(known, exclude_internal=exclude_internal)
            for consumer_id, member in members.items()
        }
        names = sorted({topic for mine in topics.values() for topic in mine})
        return Context(members, known, topics, self.partitions(names))

    # -- owners

    def owner(self, partition: TopicPartition) -> str | None:
        data = self._read(self.paths.owner(partition))
        return None if data is None else data.decode()

    def unowned(self, partitions: Mapping[str, Iterable[int]]) -> set[TopicPartition]:
        found = set()
        for topic, numbers in partitions.items():
            owned = set(self.owned_numbers(topic))
            found |= {TopicPartition(topic, number) for number in numbers if number not in owned}
        return found

    def owned_topics(self) -> list[str]:
        return self._children(self.paths.owners)

    def owned_numbers(self, topic: str) -> list[int]:
        return [int(number) for number in self._children(f"{self.paths.owners}/{topic}")]

    def create_owner(self, partition: TopicPartition, thread: str) -> bool:
        """False: somebody has it. The same text is taken for one's own, whoever's session holds it, as it was."""
        try:
            path = self.paths.owner(partition)
            self.call(self.client.create, path, thread.encode(), ephemeral=True, makepath=True)
            return True
        except NodeExistsError:
            return self.owner(partition) == thread

    def delete_owner(self, partition: TopicPartition) -> None:
        """Without a look at whose it is."""
        self._delete(self.paths.owner(partition))

    # -- offsets

    def offset(self, partition: TopicPartition) -> int | None:
        data = self._read(self.paths.offset(partition))
        return None if not data else int(data)

    def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those that are there: one by one as it was, or else all in one go."""
        wanted = list(partitions)
        if self._tries_for_ever:
            found = {partition: self.offset(partition) for partition in wanted}
        else:
            answers = [self.client.get_async(self.paths.offset(partition)) for partition in wanted]
            found = {partition: _offset_in(answer) for partition, answer in zip(wanted, answers, strict=True)}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def set_offset(self, partition: TopicPartition, offset: int) -> None:
        """Without a look at who owns it, or at what is there."""
        path, data = self.paths.offset(partition), str(offset).encode()
        try:
            self.call(self.client.set, path, data)
        except NoNodeError:
            self.call(self.client.create, path, data, makepath=True)

    # -- nodes that may be missing

    def _children(self, path: str) -> list[str]:
        try:
            return list(self.call(self.client.get_children, path))
        except NoNodeError:
            return []

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self.call(self.client.get, path)[0])
        except NoNodeError:
            return None

    def _delete(self, path: str) -> None:
        with contextlib.suppress(NoNodeError):
            self.call(self.client.delete, path)


def _offset_in(answer: Any) -> int | None:
    try:
        data = answer.get()[0]
    except NoNodeError:
        return None
    return int(data) if data else None
