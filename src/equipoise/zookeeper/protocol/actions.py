"""The actions of a policy on its own consumer: fetchers, streams, Kafka, clock, random numbers, wake-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum, auto

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.protocol.layout import BrokerAddress
from equipoise.zookeeper.protocol.steps import Action
from equipoise.zookeeper.protocol.views import Offsets, PartitionTopicInfo, Registry


class ConsumerEvent(Enum):
    """What a consumer has to see to, in this order. Any number of one kind are one."""

    SESSION = auto()  # there is a new one, or the old one after a doubt
    TOPICS = auto()
    REBALANCE = auto()


# -- fetchers and listeners


class ConnectFetchers(Action[None]):
    """To these brokers. If none of them was known before, nothing may be being read."""

    brokers: Sequence[BrokerAddress]


class ReachesBrokers(Action[bool]):
    """Whether the fetchers are connected to one of these: that one knows the others."""

    brokers: Sequence[BrokerAddress]


class UpdateFetcher(Action[None]):
    """Reads these and nothing else. Nothing that was fetched of others is handed out once this is done."""

    registry: Registry = field(default_factory=dict)


class BeforeReleasingPartitions(Action[None]):
    """Calls the application's listener while it still owns these partitions."""

    partitions: frozenset[TopicPartition]


class BeforeStartingFetchers(Action[None]):
    """Calls the application's listener with its new share, before the first record of it."""

    consumer_id: str
    decision: Mapping[TopicPartition, str]


class FollowTopics(Action[bool]):
    """Whether the topics that the subscription means are others than before, now that there are these."""

    known: Sequence[str]


class OpenGate(Action[None]):
    """Hands records out again, unless the connection was interrupted more often than it was when this was decided."""

    interruptions: int


class Abandon(Action[None]):
    """Leaves the group for good; the streams end with the reason."""

    reason: EquipoiseError


# -- offsets


class Consumed(Action[Offsets]):
    """How far each was handed out. Without an offset: auto.offset.reset has not decided."""

    infos: Sequence[PartitionTopicInfo]


class CommitToKafka(Action[None]):
    """Commits to Kafka, which does not check epochs: ZooKeeper must have accepted them before."""

    offsets: Offsets


class CommittedInKafka(Action[Offsets]):
    """Reads the group's offsets in Kafka."""

    partitions: Sequence[TopicPartition]


# -- time and chance


class Now(Action[int]):
    """Milliseconds of a clock that never jumps."""


class WallClock(Action[int]):
    """Milliseconds since 1970, as stamps in nodes have them."""


class Jitter(Action[int]):
    """Between half of these milliseconds and all: members must not try again at the same moment."""

    most_ms: int


class UniqueName(Action[str]):
    """Host, time, and eight characters of chance at the end."""


# -- waiting. Each ends early when the consumer is closed


class Sleep(Action[None]):
    """For so long, whatever happens."""

    ms: int


class AwaitQuiet(Action[bool]):
    """False: another REBALANCE has come before so much time without an event. Those before it are forgotten."""

    ms: int


class AwaitRelease(Action[None]):
    """Until the node is gone, or an event other than TOPICS comes, or the time is up. REBALANCE is forgotten then."""

    path: str  # empty: there is no node to wait for
    ms: int


class IsPending(Action[bool]):
    """Whether an event has come that nobody has handled yet."""

    event: ConsumerEvent


class Notify(Action[None]):
    """The consumer itself has an event to see to."""

    event: ConsumerEvent


class WatchMembers(Action[None]):
    """From now on the coming and going of members is REBALANCE, though the node above them may be a new one."""


class WatchBrokers(Action[None]):
    """From now on the coming and going of brokers is REBALANCE."""


class Log(Action[None]):
    """One line in the log."""

    words: str
    is_warning: bool = True
