"""What both modes of a consumer have in common: what it holds, what it is told, and what it owes.

| ZKRebalancerListener, ZookeeperConsumerConnector | here, in faithful.py and safe.py     |
|--------------------------------------------------|--------------------------------------|
| rebalanceEventTriggered, isWatcherTriggered      | ConsumerEvent.REBALANCE              |
| handleStateChanged                               | handle_state_changed                 |
| ZKSessionExpireListener.handleNewSession         | handle_new_session                   |
| WildcardStreamsHandler.handleTopicEvent          | handle_topic_event                   |
| watcherExecutorThread                            | handle                               |
| resetState                                       | reset_state                          |
| syncedRebalance, rebalanceLock                   | synced_rebalance, Synchronized       |
| rebalance                                        | rebalance                            |
| closeFetchers, closeFetchersForQueues            | close_fetchers                       |
| releasePartitionOwnership                        | release_partition_ownership          |
| fetchOffsets                                     | fetch_offsets                        |
| addPartitionTopicInfo                            | add_partition_topic_info             |
| reflectPartitionOwnershipDecision                | reflect_partition_ownership_decision |
| updateFetcher, clearFetcherQueues                | UpdateFetcher                        |
| commitOffsets                                    | commit_offsets                       |
| registerConsumerInZK                             | register_consumer_in_zk              |

What the old client did on ZooKeeper's event thread (a new session, a topic event) and on a timer (auto commit) is done
by the executor here, because callbacks of ZooKeeper's client must not wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol.actions import (
    CommittedInKafka,
    ConsumerEvent,
    FollowTopics,
    Log,
    Now,
    UniqueName,
    WallClock,
)
from equipoise.zookeeper.protocol.assignment import Decision
from equipoise.zookeeper.protocol.errors import ConsumerRebalanceFailedError
from equipoise.zookeeper.protocol.group import GroupNodes
from equipoise.zookeeper.protocol.layout import Registration
from equipoise.zookeeper.protocol.steps import Steps
from equipoise.zookeeper.protocol.views import AssignmentContext, Gate, PartitionTopicInfo, Plan, Registry

SessionState = Literal["CONNECTED", "SUSPENDED", "LOST"]
IDLE_MS = 1000


def described(error: Exception) -> str:
    """Ours are sentences; others, which a listener may raise, say little without their kind: KeyError('orders')."""
    return str(error) if isinstance(error, EquipoiseError) else repr(error)


class RebalancePolicy(ABC):
    """One consumer's. `subscribed`: its registration without a strategy and a time."""

    # Whether the first rebalance sees to a new session by giving way to the executor, which then must not run before.
    gives_way_to_sessions = False

    def __init__(self, config: ZooKeeperConsumerConfig, subscribed: Registration, gate: Gate, now_ms: int) -> None:
        self.config = config
        self.group = GroupNodes(config.group_id)
        self.consumer_id = ""  # before it has joined
        self.subscribed = subscribed
        self.gate = gate
        self.topic_registry: dict[TopicPartition, PartitionTopicInfo] = {}  # owned and read; what commits are made of
        self.checkpointed: dict[TopicPartition, int] = {}  # offsets last read from ZooKeeper or written to it
        self.attempts = 0  # at rebalances, ever
        self.is_closing = False
        self._failure: Exception | None = None  # of the last attempt
        self._commit_at = now_ms + config.auto_commit_interval_ms

    # -- the decision

    @abstractmethod
    def decide(self, context: AssignmentContext, owned: Mapping[TopicPartition, str], *, stays: bool = True) -> Plan:
        """From the view of the group, and from what this consumer owns with which thread: what it moves.

        `stays`: what it owns can be read on; the brokers are not all others than before.
        """

    # -- what it is told

    @abstractmethod
    def handle_state_changed(self, state: SessionState) -> ConsumerEvent | None:
        """What the connection has come to. Called at once, whatever else is under way."""

    def handle(self, events: set[ConsumerEvent]) -> Steps[None]:
        """What is left in `events` when this raises was not seen to."""
        acts = {
            ConsumerEvent.SESSION: self.handle_new_session,
            ConsumerEvent.TOPICS: self.handle_topic_event,
            ConsumerEvent.REBALANCE: self.synced_rebalance,
        }
        for event, act in acts.items():
            if event in events and not self.is_closing:
                events.remove(event)
                yield from act()
        yield from self._commit_when_due()

    def _commit_when_due(self) -> Steps[None]:
        now = yield from Now()
        if self.config.auto_commit_enable and now >= self._commit_at and not self.is_closing:
            self._commit_at = now + self.config.auto_commit_interval_ms
            yield from self.commit_offsets()

    def idle_ms(self, now: int) -> int:
        """How long nothing is due, unless an event comes."""
        due = self._commit_at if self.config.auto_commit_enable else now + IDLE_MS
        return max(0, min(IDLE_MS, due - now))

    @abstractmethod
    def failed(self, error: Exception, undone: set[ConsumerEvent]) -> Steps[None]:
        """An event could not be seen to."""

    @abstractmethod
    def handle_new_session(self) -> Steps[None]:
        """The session before has expired, and its ephemeral nodes with it: registers and rebalances anew."""

    def handle_topic_event(self) -> Steps[None]:
        """Rebalances if the new topics contain any that the filter takes."""
        known = yield from self.group.known_topics()
        if (yield from FollowTopics(known)):
            yield from self.synced_rebalance()

    @abstractmethod
    def synced_rebalance(self) -> Steps[None]:
        """Rebalances under the lock, and repeats what failed."""

    @abstractmethod
    def commit_offsets(self) -> Steps[None]:
        """Of all that is owned, as far as it was handed out."""

    # -- members

    def join(self) -> Steps[None]:
        """Takes an id, and registers."""
        self.consumer_id = yield from self.new_consumer_id()
        yield from self.register_consumer_in_zk()

    def new_consumer_id(self) -> Steps[str]:
        """GROUP_NAME: the configured name, or one that no other consumer has."""
        return f"{self.config.group_id}_{self.config.consumer_id or (yield from UniqueName())}"

    def registration(self, now_ms: int) -> Registration:
        """What this consumer publishes about itself."""
        return replace(self.subscribed, timestamp_ms=now_ms)

    def register_consumer_in_zk(self) -> Steps[None]:
        """Publishes the consumer; the other members rebalance."""
        now = yield from WallClock()
        yield from self.group.register(self.consumer_id, self.registration(now))

    # -- parts of a rebalance

    def attempt(self) -> Steps[bool]:
        """One try of a rebalance. False if it failed in a way that another try may mend."""
        self.attempts += 1
        self._failure = None
        try:
            return (yield from self.rebalance())
        except Exception as error:
            if not self.forgives(error):
                raise
            self._failure = error
            yield from Log(f"{self.consumer_id}: an attempt to rebalance failed: {error!r}", is_warning=False)
            return False

    @abstractmethod
    def rebalance(self) -> Steps[bool]:
        """One attempt. False: others own a part of the share."""

    @abstractmethod
    def forgives(self, error: Exception) -> bool:
        """Whether an attempt that has failed so is followed by another."""

    def threads(self) -> dict[TopicPartition, str]:
        """What the consumer holds: partitions, and the thread of each."""
        return {partition: info.thread for partition, info in self.topic_registry.items()}

    def fetch_offsets(self, partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
        """Of both stores the larger: to go back, both have to be set."""
        wanted = list(partitions)
        found: dict[TopicPartition, int] = {}
        if self.config.in_kafka:
            found |= yield from CommittedInKafka(wanted)
        stored = (yield from self.group.offsets(wanted)) if self.config.in_zookeeper else {}
        for partition, offset in stored.items():
            self.checkpointed[partition] = offset
            found[partition] = max(offset, found.get(partition, offset))
        return found

    def add_partition_topic_info(
        self, share: Decision, offsets: Mapping[TopicPartition, int], tokens: Mapping[TopicPartition, int] | None = None
    ) -> Registry:
        """The registry for a share, with the offsets to start at and the tokens of the claim."""
        given = tokens or {}
        return {
            partition: PartitionTopicInfo(partition, thread, offsets.get(partition), given.get(partition, -1))
            for partition, thread in share.items()
        }

    def rebalance_failed(self) -> ConsumerRebalanceFailedError:
        """The error that the application gets, with the reason of the last failure and what to do."""
        retries, backoff = self.config.rebalance_max_retries, self.config.rebalance_backoff_ms
        reason = (
            f"others own its share; see who by `equipoise zookeeper explain {self.config.group_id}`, and keep "
            "rebalance.max.retries * rebalance.backoff.ms above zookeeper.session.timeout.ms"
            if self._failure is None
            else f"{self._failure!r}"
        )
        return ConsumerRebalanceFailedError(
            f"{self.consumer_id} can't rebalance after {retries} attempts, {backoff} ms apart: {reason}"
        )
