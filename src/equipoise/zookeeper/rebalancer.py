"""The rebalancer of one consumer, as it was (mode faithful). safe.py has what safe mode does otherwise.

| ZKRebalancerListener, ZookeeperConsumerConnector      | here                                  |
|-------------------------------------------------------|---------------------------------------|
| rebalanceEventTriggered                               | rebalance_event_triggered             |
| handleChildChange                                     | handle_child_change                   |
| ZKTopicPartitionChangeListener.handleDataChange       | handle_data_change                    |
| ZKSessionExpireListener.handleNewSession              | handle_new_session                    |
| WildcardStreamsHandler.handleTopicEvent               | handle_topic_event                    |
| watcherExecutorThread                                 | run_watcher_executor                  |
| resetState                                            | reset_state                           |
| syncedRebalance                                       | synced_rebalance                      |
| rebalance                                             | rebalance                             |
| closeFetchers, closeFetchersForQueues                 | close_fetchers_for_queues             |
| clearFetcherQueues                                    | clear_fetcher_queues                  |
| releasePartitionOwnership                             | release_partition_ownership           |
| deletePartitionOwnershipFromZK                        | delete_partition_ownership_from_zk    |
| fetchOffsets                                          | fetch_offsets                         |
| addPartitionTopicInfo                                 | add_partition_topic_info              |
| reflectPartitionOwnershipDecision                     | reflect_partition_ownership_decision  |
| updateFetcher                                         | update_fetcher                        |
| commitOffsets                                         | commit_offsets                        |
| registerConsumerInZK                                  | register_consumer_in_zk               |

Two threads differ: what the old client did on ZooKeeper's event thread (a new session, a topic event) and on a timer
(auto commit) is done by the executor here, because kazoo's callbacks must not wait.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum, auto

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, KazooException
from kazoo.protocol.states import KazooState

from equipoise.member.partitions import TopicPartition, listed
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.assignment import Decision, share_of
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.fetchers import ConsumerFetcherManager
from equipoise.zookeeper.group import ZkGroup
from equipoise.zookeeper.layout import BROKER_IDS, BrokerAddress, Registration, new_consumer_id
from equipoise.zookeeper.streams import Gate, PartitionTopicInfo
from equipoise.zookeeper.subscription import Subscription

log = logging.getLogger(__name__)

_IDLE_S, _LOOK_S = 1.0, 0.1


class ConsumerRebalanceFailedError(EquipoiseError):
    """A consumer could not claim its partitions, however often it tried."""


class ConsumerRebalanceListener:
    """Told by the thread that rebalances. What it raises fails the attempt."""

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """They are read no more, and not yet given up."""

    def before_starting_fetchers(self, consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        """The consumer has claimed its share of what was decided for all: partitions and their threads."""


class Event(Enum):
    """What the executor has to see to. Any number of one kind are one."""

    REBALANCE = auto()
    TOPICS = auto()
    SESSION = auto()


class RebalancerListener:
    def __init__(
        self,
        config: ZooKeeperConsumerConfig,
        client: KazooClient,
        subscription: Subscription,
        gate: Gate,
        listener: ConsumerRebalanceListener,
    ) -> None:
        self.config = config
        self.client = client
        self.group = ZkGroup(client, config.group_id, self.is_closing, tries_for_ever=not config.is_safe)
        self.subscription = subscription
        self.gate = gate
        self.listener = listener
        self.fetchers = ConsumerFetcherManager(config)
        self.consumer_id = self.new_consumer_id()
        self.topic_registry: dict[TopicPartition, PartitionTopicInfo] = {}  # owned and read; what commits are made of
        self.checkpointed: dict[TopicPartition, int] = {}  # offsets last read from ZooKeeper or written to it
        self.rebalance_lock = threading.RLock()
        self.attempts = 0  # at rebalances, ever
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._pending: set[Event] = set()
        self._is_lost = False
        self._watches_brokers = False
        self._failure: Exception | None = None  # of the last attempt
        self._commit_due = self._next_commit()
        self._thread = threading.Thread(target=self.run_watcher_executor, name=f"{self.consumer_id}_watcher_executor")
        self._thread.daemon = True

    def new_consumer_id(self) -> str:
        if self.config.consumer_id:
            return f"{self.config.group_id}_{self.config.consumer_id}"
        return new_consumer_id(self.config.group_id, _now_ms())

    def is_closing(self) -> bool:
        return self._closing.is_set()

    # -- triggers: called by kazoo's threads, which must not wait

    def rebalance_event_triggered(self) -> None:
        self.notify(Event.REBALANCE)

    def notify(self, event: Event | None = None) -> None:
        """Without an event: look again."""
        with self._changed:
            self._pending |= {event} if event is not None else set()
            self._changed.notify_all()

    def handle_child_change(self, _children: Sequence[str]) -> None:
        self.rebalance_event_triggered()

    def handle_data_change(self, data: bytes | None) -> None:
        """A deleted topic is no reason to rebalance, as it was."""
        if data is not None:
            self.rebalance_event_triggered()

    def handle_state_changed(self, state: str) -> None:
        """A lost connection is nothing; only a new session is, as it was."""
        if state == KazooState.LOST:
            self._is_lost = True
        elif state == KazooState.CONNECTED and self._is_lost:
            self._is_lost = False
            self.notify(Event.SESSION)

    # -- the executor

    def start(self) -> None:
        """Registers, watches, and rebalances for the first time, in the caller's thread."""
        self.register_consumer_in_zk()
        self.client.add_listener(self.handle_state_changed)
        self.client.ChildrenWatch(self.group.paths.ids, _Later(self.handle_child_change))
        self.subscription.watch(self.client, self.handle_data_change, self.topics_changed)
        self.first_rebalance()

    def first_rebalance(self) -> None:
        self._thread.start()
        self.synced_rebalance()

    def topics_changed(self) -> None:
        self.notify(Event.TOPICS)

    def run_watcher_executor(self) -> None:
        while not self.is_closing():
            with self._changed:
                if not self._pending:
                    self._changed.wait(self._idle_s())
                events, self._pending = self._pending, set()
            try:
                self.handle(events)
            except ConnectionClosedError:
                return
            except Exception as error:  # noqa: BLE001  a listener may raise anything; the thread has to go on
                if not self.is_closing():
                    self.failed(error, events)

    def handle(self, events: set[Event]) -> None:
        """What is left in `events` when this raises was not seen to."""
        acts = {
            Event.SESSION: self.handle_new_session,
            Event.TOPICS: self.handle_topic_event,
            Event.REBALANCE: self.synced_rebalance,
        }
        for event, act in acts.items():
            if event in events and not self.is_closing():
                events.remove(event)
                act()
        if time.monotonic() >= self._commit_due and not self.is_closing():
            self._commit_due = self._next_commit()
            self.commit_offsets()

    def _next_commit(self) -> float:
        interval = self.config.auto_commit_interval_ms / 1000 if self.config.auto_commit_enable else math.inf
        return time.monotonic() + interval

    def failed(self, error: Exception, undone: set[Event]) -> None:
        """It is told, and that is all, as it was: nothing is read until something else happens."""
        log.warning("%s: %s", self.consumer_id, error)
        for event in undone:
            self.notify(event)

    def _idle_s(self) -> float:
        return max(0.0, min(_IDLE_S, self._commit_due - time.monotonic()))

    def handle_new_session(self) -> None:
        self.reset_state()
        self.register_consumer_in_zk()
        self.synced_rebalance()

    def reset_state(self) -> None:
        """Neither the nodes in ZooKeeper nor the fetchers are touched, and no lock is taken, as it was."""
        self.topic_registry = {}

    def handle_topic_event(self) -> None:
        if self.subscription.follow(self.client, self.group.known_topics(), self.handle_data_change):
            self.synced_rebalance()

    def register_consumer_in_zk(self) -> None:
        self.group.register(self.consumer_id, self.registration())

    def registration(self) -> Registration:
        return Registration(self.subscription.names, self.subscription.pattern, _now_ms())

    # -- the rebalance

    def synced_rebalance(self) -> None:
        with self.rebalance_lock:
            for _ in range(self.config.rebalance_max_retries):
                if self.is_closing() or self.attempt():
                    return
                self.close_fetchers_for_queues()
                self._closing.wait(self.config.rebalance_backoff_ms / 1000)
            if not self.is_closing():
                raise self.rebalance_failed()

    def rebalance_failed(self) -> ConsumerRebalanceFailedError:
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

    def attempt(self) -> bool:
        self.attempts += 1
        self._failure = None
        try:
            return self.rebalance(self.group.brokers())
        except ConnectionClosedError:
            raise
        except Exception as error:  # noqa: BLE001  as it was: whatever it is, the next attempt may do
            return self.attempt_failed(error)

    def attempt_failed(self, error: Exception) -> bool:
        self._failure = error
        log.info("%s: an attempt to rebalance failed: %r", self.consumer_id, error)
        return False

    def rebalance(self, brokers: Sequence[BrokerAddress]) -> bool:
        self.group.registration(self.consumer_id)
        if not brokers:
            self.watch_brokers()
            return True
        self.close_fetchers_for_queues()
        self.listener.before_releasing_partitions(frozenset(self.topic_registry))
        self.release_partition_ownership()
        self.fetchers.connect(servers_of(brokers))
        context = self.group.context(self.config.exclude_internal_topics)
        decision = self.config.strategy.assign(context.topics, context.partitions)
        share = share_of(self.consumer_id, decision)
        registry = self.add_partition_topic_info(share, self.fetch_offsets(share))
        if not self.reflect_partition_ownership_decision(share):
            return False
        self.topic_registry = registry
        self.listener.before_starting_fetchers(self.consumer_id, decision)
        self.update_fetcher()
        return True

    def watch_brokers(self) -> None:
        """Only if there were none once; from then on for ever, as it was."""
        if not self._watches_brokers:
            self.client.ensure_path(BROKER_IDS)
            self.client.ChildrenWatch(BROKER_IDS, _Later(self.handle_child_change))
            self._watches_brokers = True
            self.rebalance_event_triggered()  # one may have come before the watch

    def close_fetchers_for_queues(self) -> None:
        self.clear_fetcher_queues(self.fetchers.stop_connections())
        if self.config.auto_commit_enable:
            self.commit_offsets()

    def clear_fetcher_queues(self, infos: Iterable[PartitionTopicInfo]) -> None:
        for info in infos:
            info.stream.drop(info)

    def release_partition_ownership(self) -> None:
        for partition in sorted(self.topic_registry):
            self.delete_partition_ownership_from_zk(partition)
            del self.topic_registry[partition]

    def delete_partition_ownership_from_zk(self, partition: TopicPartition) -> None:
        self.group.delete_owner(partition)

    def fetch_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of both stores the larger: to go back, both have to be set."""
        wanted = list(partitions)
        found = self.fetchers.committed_in_kafka(wanted) if self.config.in_kafka else {}
        for partition, offset in self.group.offsets(wanted if self.config.in_zookeeper else ()).items():
            self.checkpointed[partition] = offset
            found[partition] = max(offset, found.get(partition, offset))
        return found

    def add_partition_topic_info(
        self, share: Mapping[TopicPartition, str], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionTopicInfo]:
        return {
            partition: PartitionTopicInfo(
                partition, thread, self.subscription.stream(partition.topic, thread), offsets.get(partition)
            )
            for partition, thread in share.items()
        }

    def reflect_partition_ownership_decision(self, share: Decision) -> bool:
        """One by one, on with the rest after a conflict, and then back with those that were made: as it was."""
        made = [partition for partition, thread in share.items() if self.group.create_owner(partition, thread)]
        if len(made) == len(share):
            return True
        for partition in made:
            self.delete_partition_ownership_from_zk(partition)
        log.info("%s: others own %s", self.consumer_id, listed(share.keys() - set(made)))
        return False

    def update_fetcher(self) -> None:
        self.fetchers.start_connections(self.topic_registry)

    # -- offsets

    def commit_offsets(self) -> None:
        """Of all that is owned, as far as it was handed out. Nobody looks whether it is still owned, as it was."""
        offsets = self.consumed()
        if self.config.in_kafka:
            self.fetchers.commit_to_kafka(offsets)
        if self.config.in_zookeeper:
            self.write_offsets(offsets)

    def consumed(self) -> dict[TopicPartition, int]:
        self.fetchers.note_positions()
        registry = self.topic_registry
        return {info.partition: info.consumed for info in list(registry.values()) if info.consumed is not None}

    def write_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if self.checkpointed.get(partition) != offset:
                self.group.set_offset(partition, offset)
                self.checkpointed[partition] = offset

    # -- the end

    def close(self) -> None:
        """Ending the session is what removes the nodes."""
        self._closing.set()
        self.notify()
        with self._without_waiting_for_servers(), self.rebalance_lock:
            self.clear_fetcher_queues(self.fetchers.stop_connections())
            self.subscription.end()
            self._commit_at_the_end()
            self.client.stop()
            self.fetchers.close()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        self.client.close()

    @contextmanager
    def _without_waiting_for_servers(self) -> Iterator[None]:
        """Whatever waits, here or in a rebalance under way, for servers that are not there, fails."""
        done = threading.Event()

        def watch() -> None:
            while self.client.connected and not done.wait(_LOOK_S):
                pass
            self.client.stop()

        watcher = threading.Thread(target=watch, name=f"{self.consumer_id}_closing", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _commit_at_the_end(self) -> None:
        if not (self.config.auto_commit_enable and self.client.connected and self.gate.is_open):
            return
        try:
            self.commit_offsets()
        except (EquipoiseError, KazooException) as error:
            log.warning("%s: not all offsets were committed at the end: %s", self.consumer_id, error)


def servers_of(brokers: Iterable[BrokerAddress]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in sorted(brokers))


class _Later:
    """kazoo calls at once with what is there; only what comes after that is a change."""

    def __init__(self, changed: Callable[..., None]) -> None:
        self._changed = changed
        self._is_first = True

    def __call__(self, value: object, *_: object) -> None:
        if self._is_first:
            self._is_first = False
        else:
            self._changed(value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
