"""The rebalancer in safe mode: the same protocol and nodes, without the weaknesses that rebalancer.py keeps.

- Ownership is claimed in one transaction, which also raises the epoch of each partition: the fencing token that goes
  with every offset written to ZooKeeper. Only the difference moves; what stays is read on.
- Offsets are read after the claim, when the owner before has written its last, and not before it.
- Nothing is handed out or committed while the session is in doubt; after a lost one the consumer has another id.
- A blocked claim waits for the node that blocks it, not for a time; a failed rebalance is tried again by itself.
- Strategy and view of internal topics stand in the registration. The first member decides for the group: whoever
  differs is refused, and if it is of the old kind, which asks nobody, it is not counted.
- From time to time someone looks whether a partition has no owner at all.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import KazooState

from equipoise.member.partitions import TopicPartition, listed
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.text import printable
from equipoise.zookeeper.assignment import Decision, Strategy, share_of
from equipoise.zookeeper.group import Context, Member
from equipoise.zookeeper.layout import BrokerAddress, Registration
from equipoise.zookeeper.rebalancer import Event, RebalancerListener, servers_of
from equipoise.zookeeper.streams import PartitionTopicInfo

log = logging.getLogger(__name__)

_AT_ONCE = 500  # partitions in one transaction: three operations each, far below ZooKeeper's 1 MiB for a request
_SETTLES = 10  # times rebalance.settle.ms, after which changes that never end are waited for no longer
_random = random.Random()  # the module's own belongs to the application, which may have seeded it


class InconsistentStrategyError(EquipoiseError):
    """The group shares its partitions in another way: together they would leave some unread, and nobody would know."""


class OwnershipLostError(EquipoiseError):
    """Offsets were not written: others own the partitions by now."""


class SafeRebalancer(RebalancerListener):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.orphans: frozenset[TopicPartition] = frozenset()
        self._interruptions = 0  # of the connection
        self._gate_lock = threading.Lock()
        self._context = Context({}, [], {}, {})  # of the last attempt
        self._members: dict[str, Member] = {}  # of safe mode, whose ids and registrations never change
        self._ready_paths: set[str] = set()
        self._unreleased: dict[TopicPartition, PartitionTopicInfo] = {}  # read no more; their nodes are still there
        self._doubtful: set[TopicPartition] = set()  # being claimed; no doubt remains of what is in the registry
        self._blocker = ""  # the owner node on which the last claim failed
        self._watched = ""  # the same, once it is watched
        self._gone = threading.Event()  # it has changed since
        self._retry_at: float | None = None
        self._look_at = time.monotonic() + self.config.patience_s
        self._unowned_since: dict[TopicPartition, float] = {}

    def new_consumer_id(self) -> str:
        """Never the same twice: a node of an old session can be told from one of the new."""
        given = super().new_consumer_id()
        return f"{given}-{uuid.uuid4().hex[:8]}" if self.config.consumer_id else given

    def registration(self) -> Registration:
        told = self.config.strategy, self.config.exclude_internal_topics
        return replace(super().registration(), strategy=told[0], exclude_internal=told[1])

    def start(self) -> None:
        """Who would be refused does not even register: the others need not notice."""
        self._check_strategies(self.group.context(self.config.exclude_internal_topics).members)
        super().start()

    def first_rebalance(self) -> None:
        """Before there is an executor: a session lost meanwhile has to be seen by this thread, which then gives way."""
        self.synced_rebalance()
        self._thread.start()

    # -- the session

    def handle_state_changed(self, state: str) -> None:
        """In doubt at once, for the server may soon give the partitions to others; back only after a look."""
        if state == KazooState.CONNECTED:
            self.notify(Event.SESSION)
            return
        with self._gate_lock:
            self._interruptions += 1
            self.gate.is_open = False

    def handle_new_session(self) -> None:
        seen = self._interruptions
        with self.rebalance_lock:
            if self._holds_everything():
                self._open_gate(seen)
                self.notify(Event.TOPICS)  # whatever was left undone meanwhile
                self.notify(Event.REBALANCE)
                return
            self.reset_state()
            self.group.unregister(self.consumer_id)  # if it is this session's after all, nobody may count it
            self.consumer_id = self.new_consumer_id()
            self.register_consumer_in_zk()
            self._open_gate(seen)
            self.synced_rebalance()

    def _holds_everything(self) -> bool:
        """Whether this session has the consumer's node and all of its partitions."""
        paths = [self.group.paths.registration(self.consumer_id), *map(self.group.paths.owner, self.topic_registry)]
        answers = [self.client.exists_async(path) for path in paths]
        stats = [answer.get() for answer in answers]
        return all(stat is not None and stat.ephemeralOwner == self.group.session_id for stat in stats)

    def _open_gate(self, seen: int) -> None:
        with self._gate_lock:
            if self._interruptions != seen:
                return  # in doubt again: another event is on its way
            self.gate.is_open = True
        for stream in self.subscription.all_streams():
            stream.look_again()

    def reset_state(self) -> None:
        """All is lost: nothing is committed, since others may have read on."""
        self.clear_fetcher_queues(self.fetchers.stop_connections())
        self._doubtful |= self.topic_registry.keys() | self._unreleased.keys()
        self.topic_registry = {}
        self._unreleased = {}
        self.checkpointed = {}

    # -- the executor

    def handle(self, events: set[Event]) -> None:
        now = time.monotonic()
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            events.add(Event.SESSION)
        if not (self.gate.is_open or Event.SESSION in events):
            return  # anything would wait for the server; when it is back, all is looked at
        super().handle(events)
        if now >= self._look_at:
            self._look_at = now + self.config.patience_s / 2
            self.look_for_orphans()

    def _idle_s(self) -> float:
        due = [self._look_at] + ([] if self._retry_at is None else [self._retry_at])
        return max(0.0, min(super()._idle_s(), min(due) - time.monotonic())) if self.gate.is_open else 1.0

    def failed(self, error: Exception, _undone: set[Event]) -> None:
        """Everything is looked at again, soon."""
        super().failed(error, set())
        if isinstance(error, InconsistentStrategyError):
            self._give_up(error)
            return
        self._retry_at = time.monotonic() + self.config.rebalance_backoff_ms / 1000 * _random.uniform(0.5, 1.0)

    def _give_up(self, error: InconsistentStrategyError) -> None:
        """Out of the group, and the application hears why."""
        self.subscription.end(error)
        self.close()

    # -- the rebalance

    def synced_rebalance(self) -> None:
        with self.rebalance_lock:
            self._settle()
            deadline = time.monotonic() + self.config.patience_s
            last = self.attempts + self.config.rebalance_max_retries
            while not self.is_closing():
                self._blocker = ""
                if self.attempt() or self._has_pending(Event.SESSION):
                    return
                if self.attempts >= last and time.monotonic() >= deadline:  # changes may have made them many
                    raise self.rebalance_failed()
                self._await_release(time.monotonic() + self._pause_s())

    def attempt(self) -> bool:
        self.attempts += 1
        self._failure = None
        try:
            return self.rebalance(self.group.brokers())
        except InconsistentStrategyError:
            raise
        except (KazooException, EquipoiseError) as error:
            if self.is_closing():
                raise
            return self.attempt_failed(error)

    def _settle(self) -> None:
        """One rebalance for changes that come together."""
        quiet = self.config.rebalance_settle_ms / 1000
        limit = time.monotonic() + _SETTLES * quiet
        while quiet and time.monotonic() < limit and not self.is_closing():
            with self._changed:
                self._pending.discard(Event.REBALANCE)
                self._changed.wait(quiet)
            if not self._has_pending(Event.REBALANCE):
                return

    def _pause_s(self) -> float:
        return self.config.rebalance_backoff_ms / 1000 * _random.uniform(0.5, 1.0)

    def _has_pending(self, event: Event) -> bool:
        with self._changed:
            return event in self._pending

    def _await_release(self, deadline: float) -> None:
        """Until the node that blocks is gone, or something else has changed, or the time is up."""
        if self._blocker and not self._watch_blocker():
            return
        gone = self._gone if self._blocker else threading.Event()
        with self._changed:
            while not (gone.is_set() or self._pending - {Event.TOPICS} or self.is_closing()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)
            self._pending.discard(Event.REBALANCE)

    def _watch_blocker(self) -> bool:
        """False: it is gone already. One watch for each node, however often it is waited for."""
        if self._blocker == self._watched and not self._gone.is_set():
            return True
        gone, self._watched = threading.Event(), self._blocker

        def tell(_event: object) -> None:
            gone.set()
            self.notify()

        self._gone = gone
        try:
            return self.client.exists(self._blocker, watch=tell) is not None
        except KazooException:
            return False  # the next attempt meets the same, and it is told

    def rebalance(self, brokers: Sequence[BrokerAddress]) -> bool:
        if not brokers:
            self.watch_brokers()
            return True
        self._clear_doubtful()
        self._context = context = self.group.context(self.config.exclude_internal_topics, self._read_member)
        decision = self.config.strategy.assign(self._counted(context), context.partitions)
        share = share_of(self.consumer_id, decision)
        servers = servers_of(brokers)
        keep = {
            partition: info
            for partition, info in self.topic_registry.items()
            if share.get(partition) == info.thread and self.fetchers.reaches(servers)
        }
        self.release_all_but(keep)
        self.fetchers.connect(servers)
        take = {partition: thread for partition, thread in share.items() if partition not in keep}
        if take and not self.claim(take):
            return False
        self.listener.before_starting_fetchers(self.consumer_id, decision)
        self.update_fetcher()
        return True

    def _read_member(self, consumer_id: str) -> Member:
        if consumer_id not in self._members:
            member = self.group.member(consumer_id)
            if member.registration.strategy is None:
                return member
            self._members[consumer_id] = member
        return self._members[consumer_id]

    def _counted(self, context: Context) -> dict[str, Mapping[str, int]]:
        """The members that share as the group does: as the first of them. InconsistentStrategyError: not this one."""
        self._members = {key: member for key, member in self._members.items() if key in context.members}
        if self.consumer_id not in context.members:
            raise NoNodeError(self.consumer_id)
        self._check_strategies(context.members)
        mine = self.config.strategy
        differing = {key for key, one in context.members.items() if not mine.agrees_with(one.registration.strategy)}
        if differing:
            log.warning(
                "group %s does not count %s: not of its strategy",
                self.config.group_id,
                printable(", ".join(sorted(differing))),
            )
        return {key: topics for key, topics in context.topics.items() if key not in differing}

    def _check_strategies(self, members: Mapping[str, Member]) -> None:
        """The first decides; in an empty group, whoever comes."""
        if not members:
            return
        first = min(members, key=lambda key: members[key].created)
        deciding = members[first].registration.strategy
        if not self.config.strategy.agrees_with(deciding):
            raise InconsistentStrategyError(self._refusal(first, deciding))

    def _refusal(self, first: str, deciding: Strategy | None) -> str:
        mine, group = self.config.strategy, self.config.group_id
        theirs = (
            "does not tell its strategy (mode=faithful, or an old client)" if deciding is None else f"has {deciding}"
        )
        return (
            f"{self.consumer_id} has partition.assignment.strategy={mine}, but the first member of group {group}, "
            f"{first}, {theirs}: together they can leave partitions unread without any error. Give all members of the "
            "group the same strategy, or this one another group.id"
        )

    # -- giving up

    def release_all_but(self, keep: Mapping[TopicPartition, PartitionTopicInfo]) -> None:
        given = {key: info for key, info in self.topic_registry.items() if key not in keep}
        if given:
            self.clear_fetcher_queues(self.fetchers.start_connections(keep))
            self._unreleased |= given
            self.topic_registry = dict(keep)
            self.listener.before_releasing_partitions(frozenset(given))
        if self._unreleased:
            self.release_partition_ownership()

    def release_partition_ownership(self) -> None:
        """Each with its last offset, in one transaction."""
        infos = list(self._unreleased.values())
        offsets: dict[TopicPartition, int] = {}
        if self.config.auto_commit_enable:
            offsets = {
                info.partition: info.consumed for info in infos if info.consumed is not None and self._exists(info)
            }
        if self.config.in_kafka:
            lost = self._commit([info for info in infos if info.partition in offsets], offsets)
            lost |= self._write([info for info in infos if info.partition not in lost], {}, releasing=True)
        else:
            lost = self._write(infos, offsets, releasing=True)
        self._unreleased = {}
        for info in infos:
            self.checkpointed.pop(info.partition, None)
        if lost:
            log.warning("%s no longer owned %s, and wrote no offsets", self.consumer_id, listed(lost))

    def _exists(self, info: PartitionTopicInfo) -> bool:
        """Kafka takes no offsets of a topic that was deleted."""
        return info.partition.partition in self._context.partitions.get(info.partition.topic, ())

    # -- claiming

    def claim(self, take: Decision) -> bool:
        """All of these, or none. False: `_blocker` is in the way."""
        self._doubtful = set(take)
        tokens = self._claim_tokens(take)
        if tokens is not None:
            infos = self.add_partition_topic_info(take, self.fetch_offsets(take))
            for partition, info in infos.items():
                info.token = tokens[partition]
            self.topic_registry = self.topic_registry | infos
        self._doubtful = set()
        return tokens is not None

    def _claim_tokens(self, take: Decision) -> dict[TopicPartition, int] | None:
        for topic in {partition.topic for partition in take}:
            self._ensure(f"{self.group.paths.owners}/{topic}")
            self._ensure(f"{self.group.paths.epochs}/{topic}")
        self._ensure_epochs(take)
        results = self._transact_claim(take)
        culprit = _culprit(results)
        if culprit is None:
            stats = (result for result in results if hasattr(result, "version"))
            return {partition: stat.version for partition, stat in zip(sorted(take), stats, strict=True)}
        if not isinstance(culprit, NodeExistsError):
            self._ready_paths.clear()
            raise culprit
        owned = [partition for partition, _ in self._owner_sessions(take)]
        self._blocker = self.group.paths.owner(owned[0]) if owned else ""
        return None

    def _transact_claim(self, take: Decision) -> list[Any]:
        transaction = self.client.transaction()
        transaction.check(self.group.paths.registration(self.consumer_id), 0)
        for partition, thread in sorted(take.items()):
            transaction.create(self.group.paths.owner(partition), thread.encode(), ephemeral=True)
            transaction.set_data(self.group.paths.epoch(partition), self.consumer_id.encode())
        return list(transaction.commit())

    def _clear_doubtful(self) -> None:
        """Nodes of a claim whose outcome was never known, or of which nothing came: if there are any, they are ours."""
        for partition, session in self._owner_sessions(self._doubtful):
            if session == self.group.session_id:
                self.group.delete_owner(partition)
        self._doubtful = set()

    def _owner_sessions(self, partitions: Iterable[TopicPartition]) -> list[tuple[TopicPartition, int]]:
        """Of those that have an owner."""
        wanted = sorted(partitions)
        answers = [self.client.exists_async(self.group.paths.owner(partition)) for partition in wanted]
        stats = [(partition, answer.get()) for partition, answer in zip(wanted, answers, strict=True)]
        return [(partition, int(stat.ephemeralOwner)) for partition, stat in stats if stat is not None]

    def _ensure(self, path: str) -> None:
        if path not in self._ready_paths:
            self.client.ensure_path(path)
            self._ready_paths.add(path)

    def _ensure_epochs(self, partitions: Iterable[TopicPartition]) -> None:
        missing = {self.group.paths.epoch(partition) for partition in partitions} - self._ready_paths
        answers = [self.client.create_async(path) for path in missing]
        for answer in answers:
            with contextlib.suppress(NodeExistsError):
                answer.get()
        self._ready_paths |= missing

    # -- offsets

    def commit_offsets(self) -> None:
        """Raises OwnershipLostError for what others own by now; the rest is committed."""
        with self.rebalance_lock:
            if not self.gate.is_open:
                raise OwnershipLostError(f"{self.consumer_id} has no session at the moment: nothing was committed")
            offsets = self.consumed()
            lost = self._commit([self.topic_registry[partition] for partition in offsets], offsets)
        if lost:
            self.rebalance_event_triggered()
            raise OwnershipLostError(f"{self.consumer_id} no longer owns {listed(lost)}: others have taken them over")

    def _commit(
        self, infos: Sequence[PartitionTopicInfo], offsets: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Those that were not committed, because they are others' by now.

        Kafka fences nobody here. So ZooKeeper comes first: what it refuses, Kafka never sees, and what Kafka takes late
        is not above what ZooKeeper has, and the larger counts. With offsets in Kafka alone a look at the epochs has to
        do, which leaves the moment between the look and the commit.
        """
        if self.config.in_zookeeper:
            changed = {key: at for key, at in offsets.items() if self.checkpointed.get(key) != at}
            lost = self._write([info for info in infos if info.partition in changed], changed, releasing=False)
        else:
            answers = [(info, self.client.exists_async(self.group.paths.epoch(info.partition))) for info in infos]
            held = {info.partition for info, answer in answers if (stat := answer.get()) and stat.version == info.token}
            lost = offsets.keys() - held
        if self.config.in_kafka:
            self.fetchers.commit_to_kafka({key: offset for key, offset in offsets.items() if key not in lost})
        return lost

    def _write(
        self, infos: Sequence[PartitionTopicInfo], offsets: Mapping[TopicPartition, int], *, releasing: bool
    ) -> set[TopicPartition]:
        """Those that were not written, because they are others' by now."""
        lost: set[TopicPartition] = set()
        rest = iter(infos)
        while several := list(islice(rest, _AT_ONCE)):
            if _culprit(self._transact_write(several, offsets, releasing)) is None:
                continue
            for info in several:
                self._ready_paths.discard(self.group.paths.offset(info.partition))
                culprit = _culprit(self._transact_write([info], offsets, releasing))
                lost |= {info.partition} if culprit is not None else set()
        self.checkpointed |= {key: at for key, at in offsets.items() if key not in lost}
        return lost

    def _transact_write(
        self, infos: Iterable[PartitionTopicInfo], offsets: Mapping[TopicPartition, int], releasing: bool
    ) -> list[Any]:
        transaction = self.client.transaction()
        for info in infos:
            partition, offset = info.partition, offsets.get(info.partition)
            transaction.check(self.group.paths.epoch(partition), info.token)
            if offset is not None and self.checkpointed.get(partition) != offset:
                self._add_offset(transaction, partition, str(offset).encode())
            if releasing:
                transaction.delete(self.group.paths.owner(partition))
        return list(transaction.commit())

    def _add_offset(self, transaction: Any, partition: TopicPartition, data: bytes) -> None:
        path = self.group.paths.offset(partition)
        if path not in self._ready_paths and self.client.exists(path) is None:
            self._ensure(f"{self.group.paths.offsets}/{partition.topic}")
            transaction.create(path, data)
        else:
            self._ready_paths.add(path)
            transaction.set_data(path, data)

    # -- partitions without an owner

    def look_for_orphans(self) -> None:
        """Without an owner for longer than any rebalance takes: told, and a rebalance tried."""
        context = self.group.context(self.config.exclude_internal_topics, self._read_member)
        unowned = self.group.unowned(context.partitions)
        if unowned & self.topic_registry.keys():
            self.notify(Event.SESSION)  # somebody has deleted nodes of this consumer: what it holds has to be looked at
        now = time.monotonic()
        self._unowned_since = {partition: self._unowned_since.get(partition, now) for partition in unowned}
        self.orphans = frozenset(
            partition for partition, since in self._unowned_since.items() if now - since >= self.config.patience_s
        )
        if self.orphans:
            log.warning(
                "group %s: nobody owns %s, for %g s at least; see `equipoise zookeeper explain %s`",
                self.config.group_id,
                listed(self.orphans),
                self.config.patience_s,
                self.config.group_id,
            )
            self.rebalance_event_triggered()


def _culprit(results: Iterable[Any]) -> Exception | None:
    """The reason why a transaction was not done: commit() returns exceptions, and raises none."""
    failures = [result for result in results if isinstance(result, Exception)]
    reasons = [failure for failure in failures if not isinstance(failure, RolledBackError | RuntimeInconsistency)]
    return next(iter([*reasons, *failures]), None)
