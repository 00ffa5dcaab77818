"""Runs one consumer: a policy, on kazoo, fetchers and streams.

kazoo's callbacks only note events; one executor thread handles them. The calling threads run the first rebalance,
commits and the end.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, KazooException

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.fetchers import ConsumerFetcherManager
from equipoise.zookeeper.protocol import actions
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.faithful import FaithfulPolicy
from equipoise.zookeeper.protocol.layout import BROKER_IDS, BrokerAddress, Registration
from equipoise.zookeeper.protocol.policy import RebalancePolicy, SessionState
from equipoise.zookeeper.protocol.safe import SafePolicy
from equipoise.zookeeper.protocol.steps import Synchronized
from equipoise.zookeeper.protocol.views import Gate, Offsets, Registry
from equipoise.zookeeper.runner import KazooRunner, Performers
from equipoise.zookeeper.session import unique_name
from equipoise.zookeeper.subscription import StreamSubscription

log = logging.getLogger(__name__)

_LOOK_S = 0.1
_random = random.Random()  # the module's own belongs to the application, which may have seeded it


class ConsumerRebalanceListener:
    """Told by the thread that rebalances. What it raises fails the attempt; SystemExit does not end the process."""

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """They are read no more, and not yet given up."""

    def before_starting_fetchers(self, consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        """The consumer has claimed its share of what was decided for all: partitions and their threads."""


class ZookeeperConsumerConnector:
    """One consumer. `rebalance_lock` is held by whoever rebalances or ends."""

    def __init__(
        self,
        config: ZooKeeperConsumerConfig,
        client: KazooClient,
        *,
        subscription: StreamSubscription,
        gate: Gate,
        listener: ConsumerRebalanceListener,
    ) -> None:
        self.config = config
        self.client = client
        self.subscription = subscription
        self.gate = gate
        self.listener = listener
        self.fetchers = ConsumerFetcherManager(config, subscription.stream)
        kind = SafePolicy if config.is_safe else FaithfulPolicy
        subscribed = Registration(subscription.names, subscription.pattern)
        self.policy: RebalancePolicy = kind(config, subscribed, gate, _monotonic_ms())
        self.rebalance_lock = threading.RLock()
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._pending: set[ConsumerEvent] = set()
        self._watches_brokers = False
        self._watched_ids = 0  # ZooKeeper's number of the change that made the watched node above the members
        self._blocker, self._released = "", threading.Event()  # the owner node that is watched, and whether it is gone
        self._runner = KazooRunner(
            client, self._performers(), tries_for_ever=not config.is_safe, is_closing=self.is_closing
        )
        self.run = self._runner.run
        self._thread = threading.Thread(target=self._run_watcher_executor, daemon=True)

    @property
    def topic_registry(self) -> Registry:
        """What is owned and read."""
        return self.policy.topic_registry

    def is_closing(self) -> bool:
        """Whether the end has begun: waits and retries give up then."""
        return self._closing.is_set()

    # -- triggers: called by kazoo's threads, which must not wait

    def notify(self, event: ConsumerEvent | None = None) -> None:
        """Without an event: look again."""
        with self._changed:
            self._pending |= {event} if event is not None else set()
            self._changed.notify_all()

    def rebalance_event_triggered(self, *_: object) -> None:
        """A watch has fired. What has changed does not matter: a rebalance reads everything anew."""
        self.notify(ConsumerEvent.REBALANCE)

    def handle_data_change(self, data: bytes | None) -> None:
        """A deleted topic is no reason to rebalance."""
        if data is not None:
            self.rebalance_event_triggered()

    def handle_state_changed(self, state: SessionState) -> None:
        """Called by kazoo's thread: the policy shuts or opens the gate at once, and the executor does the rest."""
        with self._changed:  # the gate is shut and opened under it
            event = self.policy.handle_state_changed(state)
        if event is not None:
            self.notify(event)

    # -- the executor

    def start(self) -> None:
        """Registers, watches, and rebalances for the first time, in the caller's thread."""
        self.run(self.policy.join())
        self._thread.name = f"{self.policy.consumer_id}_watcher_executor"
        self.client.add_listener(self.handle_state_changed)
        self._watch_members()
        self.subscription.watch(self.client, self.handle_data_change, lambda: self.notify(ConsumerEvent.TOPICS))
        if not self.policy.gives_way_to_sessions:
            self._thread.start()
        self.run(self.policy.synced_rebalance())
        if self.policy.gives_way_to_sessions:
            self._thread.start()

    def _run_watcher_executor(self) -> None:
        while not self.is_closing():
            with self._changed:
                if not self._pending:
                    self._changed.wait(self.policy.idle_ms(_monotonic_ms()) / 1000)
                events, self._pending = self._pending, set()
            try:
                self.run(self.policy.handle(events))
            except ConnectionClosedError:
                return
            except Exception as error:  # noqa: BLE001  a listener may raise anything; the thread has to go on
                if not self.is_closing():
                    self.run(self.policy.failed(error, events))

    def commit_offsets(self) -> None:
        """Commits what the streams have handed out, in the calling thread."""
        self.run(self.policy.commit_offsets())

    # -- what the policy asks for

    def _performers(self) -> Performers:
        listener, fetchers = self.listener, self.fetchers
        return {
            Synchronized: self._synchronized,
            actions.ConnectFetchers: lambda action: fetchers.connect(servers_of(action.brokers)),
            actions.ReachesBrokers: lambda action: fetchers.reaches(servers_of(action.brokers)),
            actions.UpdateFetcher: lambda action: fetchers.start_connections(action.registry),
            actions.BeforeReleasingPartitions: lambda action: self._tell(
                listener.before_releasing_partitions, action.partitions
            ),
            actions.BeforeStartingFetchers: lambda action: self._tell(
                listener.before_starting_fetchers, action.consumer_id, action.decision
            ),
            actions.FollowTopics: lambda action: self.subscription.follow(
                self.client, action.known, self.handle_data_change
            ),
            actions.OpenGate: self._open_gate,
            actions.Abandon: self._abandon,
            actions.Consumed: self._consumed,
            actions.CommitToKafka: lambda action: fetchers.commit_to_kafka(action.offsets),
            actions.CommittedInKafka: lambda action: fetchers.committed_in_kafka(action.partitions),
            actions.Now: lambda _: _monotonic_ms(),
            actions.WallClock: lambda _: _wall_ms(),
            actions.Jitter: lambda action: round(action.most_ms * _random.uniform(0.5, 1.0)),
            actions.UniqueName: lambda _: unique_name(_wall_ms()),
            actions.Sleep: lambda action: self._closing.wait(action.ms / 1000),
            actions.AwaitQuiet: self._await_quiet,
            actions.AwaitRelease: self._await_release,
            actions.IsPending: lambda action: action.event in self._pending,
            actions.Notify: lambda action: self.notify(action.event),
            actions.WatchMembers: lambda _: self._watch_members(),
            actions.WatchBrokers: self._watch_brokers,
            actions.Log: lambda action: log.log(logging.WARNING if action.is_warning else logging.INFO, action.words),
        }

    def _synchronized(self, action: Synchronized[Any]) -> Any:
        with self.rebalance_lock:
            return self.run(action.steps)

    def _tell(self, told: Callable[..., None], *arguments: object) -> None:
        """Calls the listener. SystemExit would end the executor, and with it all rebalances, in silence."""
        try:
            told(*arguments)
        except Exception:
            raise
        except BaseException as error:
            if threading.current_thread() is not self._thread:
                raise
            raise RuntimeError(f"the listener raised {error!r}") from error

    def _open_gate(self, action: actions.OpenGate) -> None:
        with self._changed:
            is_open = self.gate.open(action.interruptions)
        for stream in self.subscription.all_streams() if is_open else ():
            stream.look_again()

    def _abandon(self, action: actions.Abandon) -> None:
        self.subscription.end(action.reason)
        self.close()

    def _consumed(self, action: actions.Consumed) -> Offsets:
        self.fetchers.note_positions()
        return {info.partition: info.consumed for info in action.infos if info.consumed is not None}

    # -- waiting

    def _await_quiet(self, action: actions.AwaitQuiet) -> bool:
        with self._changed:
            self._pending.discard(ConsumerEvent.REBALANCE)
            self._changed.wait(action.ms / 1000)
            return ConsumerEvent.REBALANCE not in self._pending

    def _await_release(self, action: actions.AwaitRelease) -> None:
        released = self._watch_blocker(action.path) if action.path else threading.Event()
        deadline = time.monotonic() + action.ms / 1000
        with self._changed:
            while not (released.is_set() or self._pending - {ConsumerEvent.TOPICS} or self.is_closing()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)
            self._pending.discard(ConsumerEvent.REBALANCE)

    def _watch_blocker(self, path: str) -> threading.Event:
        """Set when the node is gone. One watch for each node, however often it is waited for."""
        if path == self._blocker and not self._released.is_set():
            return self._released
        self._blocker, self._released = path, threading.Event()
        released = self._released

        def tell(_event: object) -> None:
            released.set()
            self.notify()

        try:
            if self.client.exists(path, watch=tell) is None:
                released.set()
        except KazooException:
            released.set()  # the next attempt meets the same, and it is told
        return released

    def _watch_members(self) -> None:
        """Once for each life of the node above them: kazoo drops the watch without a word when that is deleted."""
        path = self.policy.group.paths.ids
        found = self.client.exists(path)
        if found is not None and found.czxid != self._watched_ids:
            self.client.ChildrenWatch(path, _Later(self.rebalance_event_triggered))
            self._watched_ids = found.czxid

    def _watch_brokers(self, _action: actions.WatchBrokers) -> None:
        if not self._watches_brokers:
            self.client.ensure_path(BROKER_IDS)
            self.client.ChildrenWatch(BROKER_IDS, _Later(self.rebalance_event_triggered))
            self._watches_brokers = True
            self.rebalance_event_triggered()  # one may have come before the watch

    # -- the end

    def close(self) -> None:
        """Ending the session is what removes the nodes."""
        self._closing.set()
        self.policy.is_closing = True
        self.notify()
        with self._without_waiting_for_servers(), self.rebalance_lock:
            self.fetchers.start_connections({})
            self.subscription.end()
            self._commit_at_the_end()
            self.client.stop()
            self.policy.topic_registry = {}
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

        watcher = threading.Thread(target=watch, name=f"{self.policy.consumer_id}_closing", daemon=True)
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
            log.warning("%s: not all offsets were committed at the end: %s", self.policy.consumer_id, error)


def servers_of(brokers: Sequence[BrokerAddress]) -> str:
    """The brokers as `bootstrap.servers` has them."""
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


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
