"""The inputs and the result of a policy's decision: views of the nodes, what the consumer holds, and a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.protocol.assignment import Decision, Members, Partitions
from equipoise.zookeeper.protocol.layout import Registration

Offsets = Mapping[TopicPartition, int]


class RegisteredConsumer(NamedTuple):
    """A registered consumer of the group."""

    registration: Registration
    created: int  # ZooKeeper's number of the change: the first member has the smallest


class AssignmentContext(NamedTuple):
    """What an assignment is made from. Separate reads, no common snapshot."""

    members: Mapping[str, RegisteredConsumer]
    topics: Members  # of each member, with its streams
    partitions: Partitions


class Plan(NamedTuple):
    """What follows from a view for this consumer."""

    decision: Decision  # for all members
    release: frozenset[TopicPartition]
    claim: Decision


class PartitionTopicInfo:
    """A partition for as long as it is owned without a break, and how far its stream has come.

    The stream moves `consumed` on; a policy asks for it by the action Consumed.
    """

    __slots__ = ("consumed", "is_live", "partition", "thread", "token")

    def __init__(self, partition: TopicPartition, thread: str, consumed: int | None, token: int = -1) -> None:
        self.partition = partition
        self.thread = thread
        self.consumed = consumed  # the next offset to hand out; None: auto.offset.reset has not decided yet
        self.token = token  # safe mode: the version of the epoch node that the claim has made
        self.is_live = True

    def __repr__(self) -> str:
        return f"{self.partition}({self.thread}, at {self.consumed}, token {self.token})"


Registry = Mapping[TopicPartition, PartitionTopicInfo]


@dataclass
class Gate:
    """Shut while the session is in doubt: nothing is handed out. Shared by all streams of a consumer."""

    is_open: bool = True
    interruptions: int = 0  # of the connection, ever

    def shut(self) -> None:
        """Streams hand nothing out until it opens; whoever counts `interruptions` sees that it was shut."""
        self.interruptions += 1
        self.is_open = False

    def open(self, interruptions: int) -> bool:
        """Unless it was shut again since the doubt was resolved: another event is on its way."""
        self.is_open = self.is_open or interruptions == self.interruptions
        return self.is_open
