"""Members of a group on a tree in memory: both policies, virtual time, one thread, and chance by a seed.

Every member has tasks: its executor, its first rebalance, commits of the application. A task stops before each action,
before the answer of ZooKeeper, and whenever it waits; the world draws which task goes on. What a member has asked for
may be done and its answer lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol import actions, nodes
from equipoise.zookeeper.protocol.actions import Event
from equipoise.zookeeper.protocol.errors import ZooKeeperError
from equipoise.zookeeper.protocol.faithful import FaithfulPolicy
from equipoise.zookeeper.protocol.layout import (
    BROKER_IDS,
    TOPICS,
    GroupPaths,
    Registration,
    TopicFilter,
    broker_json,
    topic_json,
    topic_path,
)
from equipoise.zookeeper.protocol.policy import RebalancePolicy
from equipoise.zookeeper.protocol.safe import SafePolicy
from equipoise.zookeeper.protocol.steps import Action, Steps, Synchronized
from equipoise.zookeeper.protocol.views import Gate, Offsets, PartitionTopicInfo, Registry
from tests.zookeeper.protocol.tree import Tree

T = TypeVar("T")
GROUP = "billing"
SESSION_MS, NOTICED_MS = 6_000, 4_000  # a client gives a silent server up after two thirds of a session


class Until(NamedTuple):
    """What a task waits for: a condition, or a time."""

    is_so: Callable[[], bool] = lambda: True
    at_ms: float = float("inf")


Task = Generator[Until, None, None]
Performing = Generator[Until, None, Any]


class Record(NamedTuple):
    """One that was handed out."""

    member: str
    partition: TopicPartition
    offset: int
    token: int


class Member:
    def __init__(self, world: World, name: str, subscribed: Registration, settings: Mapping[str, object]) -> None:
        self.world, self.name = world, name
        given = {"zookeeper.connect": "-", "group.id": GROUP, "consumer.id": name, **settings}
        self.config = ZooKeeperConsumerConfig.parse(given)
        self.gate = Gate()
        kind = SafePolicy if self.config.is_safe else FaithfulPolicy
        self.policy: RebalancePolicy = kind(self.config, subscribed, self.gate, world.now)
        self.subscribed = subscribed
        self.session = world.tree.new_session()
        self.is_connected = True  # as far as the server can tell
        self.is_suspended = False  # as far as the client knows
        self.losses = 0  # of the connection
        self.is_paused = False
        self.pending: set[Event] = set()
        self.fetching: dict[TopicPartition, PartitionTopicInfo] = {}
        self.tasks: list[tuple[Task, Until]] = []
        self.errors: list[Exception] = []
        self.released: list[frozenset[TopicPartition]] = []
        self._lock: object | None = None  # the task that has it
        self._watches = self._watches_brokers = False
        self._topics: frozenset[str] = frozenset()
        self._executor_runs = False
        self.spawn(self._start())

    # -- tasks

    def spawn(self, task: Task) -> None:
        self.tasks.append((task, Until()))

    def _start(self) -> Task:
        me = object()
        try:
            yield from self.drive(self.policy.join(), me)
            self._watches = True
            if not self.policy.gives_way_to_sessions:
                self.spawn(self._executor())
            yield from self.drive(self.policy.synced_rebalance(), me)
            if self.policy.gives_way_to_sessions:
                self.spawn(self._executor())
        except Exception as error:  # noqa: BLE001  told to the caller
            self.errors.append(error)
            if self.config.is_safe:
                self.close()

    def _executor(self) -> Task:
        me = object()
        while not self.policy.is_closing:
            yield Until(lambda: bool(self.pending), self.world.now + max(1, self.policy.idle_ms(self.world.now)))
            events, self.pending = self.pending, set()
            try:
                yield from self.drive(self.policy.handle(events), me)
            except Exception as error:  # noqa: BLE001
                self.errors.append(error)
                yield from self.drive(self.policy.failed(error, events), me)

    def commit(self) -> None:
        """As the application does, whenever it likes."""
        self.spawn(self._commit())

    def _commit(self) -> Task:
        try:
            yield from self.drive(self.policy.commit_offsets(), object())
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)

    def leave(self) -> None:
        """In order: nothing is read any more, the last offsets are committed, the session ends."""
        self.policy.is_closing = True
        self.spawn(self._leave())

    def _leave(self) -> Task:
        me = object()
        yield Until(lambda: self._lock is None)
        self._lock = me
        self.fetching = {}
        try:
            if self.config.auto_commit_enable and self.gate.is_open and self.is_connected:
                yield from self.drive(self.policy.commit_offsets(), me)
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)
        self.close()

    def close(self) -> None:
        """As a process that is killed, if nothing was done before; its session ends at once."""
        self.policy.is_closing = True
        self.fetching = {}
        self.tasks.clear()
        self.world.gone(self)

    def drive(self, steps: Steps[T], me: object) -> Generator[Until, None, T]:
        go_on: Callable[[], Action[Any]] = partial(next, steps)
        while True:
            try:
                action = go_on()
            except StopIteration as ended:
                outcome: T = ended.value
                return outcome
            try:
                yield Until()  # a thread can be stopped between any two actions
                go_on = partial(steps.send, (yield from self._perform(action, me)))
            except Exception as error:  # noqa: BLE001  whatever it is, the policy knows what follows
                go_on = partial(steps.throw, error)

    def _perform(self, action: Action[Any], me: object) -> Performing:
        if isinstance(action, Synchronized):
            return (yield from self._synchronized(action, me))
        if isinstance(action, actions.Sleep | actions.AwaitQuiet | actions.AwaitRelease):
            return (yield from self._wait(action))
        if isinstance(action, nodes.GetData):
            return (yield from self._read_all(action.paths))
        if isinstance(action, nodes.Exists):
            return tuple(node and node.stat for node in (yield from self._read_all(action.paths)))
        if isinstance(action, nodes.GetChildren):
            return (yield from self._ask(partial(self.world.tree.children, action.path)))
        if action.__class__ in _WRITES:
            return (yield from self._ask(partial(self._write, action)))
        return self._act(action)

    def _synchronized(self, action: Synchronized[T], me: object) -> Generator[Until, None, T]:
        is_mine = self._lock is me
        while not is_mine and self._lock is not None:
            yield Until(lambda: self._lock is None)
        self._lock = me
        try:
            return (yield from self.drive(action.steps, me))
        finally:
            self._lock = me if is_mine else None

    # -- ZooKeeper

    def _ask(self, operation: Callable[[], T]) -> Generator[Until, None, T]:
        """The request is under way, then its answer. The client of old asks again, in the next session if need be."""
        while True:
            session, losses = self.session, self.losses
            yield Until(lambda: self.is_connected or not self.is_suspended)  # what is asked meanwhile waits
            if self.is_connected and session == self.session:
                outcome = operation()
                yield Until()
                if self.is_connected and losses == self.losses:
                    return outcome
            yield Until(lambda before=losses: self.losses != before)  # nobody knows before it is noticed
            if self.config.is_safe:
                raise ZooKeeperError("ConnectionLoss()")

    def _read_all(self, paths: Iterable[str]) -> Generator[Until, None, tuple[nodes.Node | None, ...]]:
        """No common snapshot."""
        found = []
        for path in paths:
            found.append((yield from self._ask(partial(self.world.tree.get, path))))  # noqa: PERF401
        return tuple(found)

    def _write(self, action: Any) -> Any:
        tree = self.world.tree
        with self.world.writing(self):
            match action:
                case nodes.Create(path, data, is_ephemeral):
                    return tree.create(path, data, self.session if is_ephemeral else 0)
                case nodes.CreateMissing(paths):
                    return [tree.create(path, b"") for path in paths]
                case nodes.EnsurePath(path):
                    return tree.ensure_path(path)
                case nodes.SetData(path, data):
                    return tree.set(path, data)
                case nodes.Delete(path):
                    return tree.delete(path)
                case nodes.Transaction(operations):
                    return tree.transact(operations, self.session)

    # -- waiting

    def _wait(self, action: Any) -> Performing:
        until = self.world.now + action.ms
        closing = lambda: self.policy.is_closing  # noqa: E731
        match action:
            case actions.Sleep():
                yield Until(closing, until)
            case actions.AwaitQuiet():
                self.pending.discard(Event.REBALANCE)
                yield Until(lambda: bool(self.pending) or closing(), until)
                return Event.REBALANCE not in self.pending
            case actions.AwaitRelease(path):
                before = self.world.tree.get(path) if path else None
                is_released = lambda: bool(path) and (before is None or self.world.tree.get(path) != before)  # noqa: E731
                yield Until(lambda: is_released() or bool(self.pending - {Event.TOPICS}) or closing(), until)
                self.pending.discard(Event.REBALANCE)
        return None

    # -- the rest

    def _act(self, action: Any) -> Any:
        match action:
            case nodes.Session():
                return self.session
            case actions.Now() | actions.WallClock():
                return self.world.now
            case actions.Jitter(most):
                return self.world.chance.randint(most // 2, most)
            case actions.UniqueName():
                return f"host-{self.world.now}-{self.world.chance.randrange(1 << 32):08x}"
            case actions.IsPending(event):
                return event in self.pending
            case actions.ReachesBrokers():
                return True
            case actions.FollowTopics(known):
                before, self._topics = self._topics, frozenset(filter(self.means, known))
                return before != self._topics
            case _:
                return self._affect(action)

    def _affect(self, action: Any) -> Any:
        match action:
            case actions.UpdateFetcher(registry):
                self._update_fetcher(registry)
            case actions.OpenGate(interruptions):
                self.gate.open(interruptions)
            case actions.Abandon():
                self.close()
            case actions.Notify(event):
                self.pending.add(event)
            case actions.WatchBrokers():
                self._watches_brokers = True
            case actions.Consumed(infos):
                return {info.partition: info.consumed for info in infos if info.consumed is not None}
            case actions.CommitToKafka(offsets):
                self.world.commit_to_kafka(offsets)
            case actions.CommittedInKafka(partitions):
                return {one: self.world.kafka[one] for one in partitions if one in self.world.kafka}
            case actions.BeforeReleasingPartitions(partitions):
                self.released.append(partitions)
        return None

    def _update_fetcher(self, registry: Registry) -> None:
        self.fetching = dict(registry)
        self.world.check_readers()

    def means(self, topic: str) -> bool:
        return bool(self.subscribed.topics([topic], exclude_internal=self.config.exclude_internal_topics))

    def told(self, path: str) -> None:
        """By a watch, if it is set and there is a connection; when one is back, all is looked at."""
        above, _, name = path.rpartition("/")
        if not (self._watches and self.is_connected):
            return
        if above == GroupPaths(GROUP).ids or (above == BROKER_IDS and self._watches_brokers):
            self.pending.add(Event.REBALANCE)
        elif above == TOPICS and self.means(name):
            self.pending |= {Event.REBALANCE} if self.subscribed.pattern == "static" else set(Event) - {Event.SESSION}

    # -- reading

    def can_read(self, partition: TopicPartition) -> bool:
        return partition in self.fetching and self.gate.is_open and not self.is_paused

    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self.policy.topic_registry)


_WRITES = {nodes.Create, nodes.CreateMissing, nodes.EnsurePath, nodes.SetData, nodes.Delete, nodes.Transaction}


class World:
    """`violations`: what must not happen in safe mode, and does as it was."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.tree = Tree()
        self.tree.changed = self._changed
        self.paths = GroupPaths(GROUP)
        self.members: list[Member] = []
        self.ends: dict[TopicPartition, int] = {}  # of the logs
        self.kafka: dict[TopicPartition, int] = {}
        self.records: list[Record] = []
        self.violations: set[str] = set()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._writer: Member | None = None
        self._written: dict[TopicPartition, int] = {}
        self.tree.create(f"{BROKER_IDS}/0", broker_json("host", 9092, 0))

    # -- topics

    def topic(self, name: str, partitions: int) -> None:
        data = topic_json({number: [0] for number in range(partitions)})
        if not self.tree.create(topic_path(name), data):
            self.tree.set(topic_path(name), data)
        for number in range(partitions):
            self.ends.setdefault(TopicPartition(name, number), 0)

    def produce(self, count: int = 1) -> None:
        """To each partition."""
        self.ends = {partition: end + count for partition, end in self.ends.items()}

    def read(self, most: int = 1) -> None:
        """Each member hands out a few records of what it fetches."""
        for member in self.members:
            for partition, info in list(member.fetching.items()):
                for _ in range(most):
                    if member.can_read(partition) and (info.consumed or 0) < self.ends[partition]:
                        self._hand_out(member, info)

    def _hand_out(self, member: Member, info: PartitionTopicInfo) -> None:
        offset = info.consumed or 0  # auto.offset.reset=smallest
        info.consumed = offset + 1
        self.records.append(Record(member.name, info.partition, offset, info.token))
        self.check_readers()

    # -- members

    def join(self, name: str, topics: Mapping[str, int] | TopicFilter, **settings: object) -> Member:
        subscribed = (
            Registration({topics.regex: 1}, topics.pattern)
            if isinstance(topics, TopicFilter)
            else Registration(dict(topics))
        )
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.members.append(Member(self, name, subscribed, given))
        return self.members[-1]

    def gone(self, member: Member) -> None:
        if member in self.members:
            self.members.remove(member)
        self.tree.end_session(member.session)

    # -- faults

    def cut_off(self, member: Member, ms: int, noticed_ms: int | None = None) -> None:
        """From ZooKeeper, for so long: the session may end meanwhile. The client notices before it does."""
        if not member.is_connected:
            return
        member.is_connected = False
        noticed = self.chance.randint(0, min(ms, NOTICED_MS)) if noticed_ms is None else noticed_ms
        is_over = ms >= SESSION_MS
        self.after(noticed, lambda: self._notice(member))
        if is_over:
            self.after(SESSION_MS, lambda: self.tree.end_session(member.session))
        self.after(max(ms, noticed + 1), lambda: self._connect(member, is_over))

    def _notice(self, member: Member) -> None:
        member.losses += 1
        member.is_suspended = True
        member.policy.handle_state_changed("SUSPENDED")

    def _connect(self, member: Member, is_over: bool) -> None:
        if member not in self.members:
            return
        if is_over:
            member.losses += 1
            member.policy.handle_state_changed("LOST")
            member.session = self.tree.new_session()
        member.is_connected, member.is_suspended = True, False
        event = member.policy.handle_state_changed("CONNECTED")
        member.pending |= {event} if event is not None else set()
        member.pending.add(Event.REBALANCE)  # a watch that is set anew finds another list

    def pause(self, member: Member, ms: int) -> None:
        """The whole process stops, and knows nothing of it. A moment passes before it hears that it was missed."""
        member.is_paused = True

        def resume() -> None:
            member.is_paused = False

        noticed = ms + self.chance.randint(0, 3)
        self.after(ms, resume)
        self.cut_off(member, noticed + self.chance.randint(0, 3), noticed)

    def after(self, ms: int, act: Callable[[], None]) -> None:
        self._timers.append((self.now + ms, act))

    # -- time

    def run(self, ms: int, reads: int = 1) -> None:
        """So much time passes."""
        end = self.now + ms
        while self.now < end:
            self._step(end)
            self.read(reads if self.chance.random() < 0.2 else 0)

    def run_until(self, is_so: Callable[[], bool], most_ms: int = 120_000) -> bool:
        end = self.now + most_ms
        while not is_so() and self.now < end:
            self._step(end)
            self.read(self.chance.random() < 0.2)
        return is_so()

    def _step(self, end: float) -> None:
        ready = [
            (member, one)
            for member in self.members
            if not member.is_paused
            for one in member.tasks
            if one[1].is_so() or one[1].at_ms <= self.now
        ]
        if ready:
            self._advance(*self.chance.choice(ready))
            if self.chance.random() < 0.3:
                self._pass(self.now + 1)
            self.check_readers()
            return
        waits = [one[1].at_ms for member in self.members if not member.is_paused for one in member.tasks]
        self._pass(min([end, *waits, *(at for at, _ in self._timers)]))

    def _pass(self, to: float) -> None:
        self.now = max(self.now, int(to))
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, act in sorted(due, key=lambda timer: timer[0]):
            act()
        self.check_readers()

    def _advance(self, member: Member, one: tuple[Task, Until]) -> None:
        place = member.tasks.index(one)
        try:
            waits = next(one[0])
        except StopIteration:
            if one in member.tasks:
                member.tasks.remove(one)
            return
        if one in member.tasks:
            member.tasks[place] = (one[0], waits)

    # -- what stands in ZooKeeper

    def owners(self) -> dict[TopicPartition, str]:
        found = {}
        for partition in self.ends:
            node = self.tree.get(self.paths.owner(partition))
            if node is not None:
                found[partition] = node.data.decode()
        return found

    def offset(self, partition: TopicPartition) -> int | None:
        node = self.tree.get(self.paths.offset(partition))
        return int(node.data) if node else None

    def is_settled(self) -> bool:
        """Every partition is owned and fetched by one member, which knows it."""
        fetched = [partition for member in self.members for partition in member.fetching if member.can_read(partition)]
        ids = {member.policy.consumer_id for member in self.members}
        owners = {thread.rpartition("-")[0] for thread in self.owners().values()}
        return sorted(fetched) == sorted(self.ends) == sorted(self.owners()) and owners <= ids

    def is_read(self) -> bool:
        seen = {(record.partition, record.offset) for record in self.records}
        return all((partition, at) in seen for partition, end in self.ends.items() for at in range(end))

    def read_twice(self) -> set[tuple[TopicPartition, int]]:
        rows = [(record.partition, record.offset) for record in self.records]
        return {row for row in rows if rows.count(row) > 1}

    # -- what must not happen

    def writing(self, member: Member) -> _Writing:
        return _Writing(self, member)

    def _changed(self, path: str) -> None:
        for member in self.members:
            member.told(path)
        if path.startswith(self.paths.offsets) and path.count("/") == 5:
            self._check_offset(TopicPartition(*_place(path)))

    def _check_offset(self, partition: TopicPartition) -> None:
        """Only the member that has claimed a partition last writes its offset, which never goes back."""
        offset, before = self.offset(partition) or 0, self._written.get(partition, 0)
        self._written[partition] = offset
        if offset < before:
            self.violations.add("an offset went back")
        epoch = self.tree.get(self.paths.epoch(partition))
        writer = self._writer
        if writer is not None and epoch is not None and epoch.data.decode() != writer.policy.consumer_id:
            self.violations.add("an offset was written under an old epoch")

    def check_readers(self) -> None:
        for partition in self.ends:
            if sum(member.can_read(partition) for member in self.members) > 1:
                self.violations.add("a partition had two readers")

    def commit_to_kafka(self, offsets: Offsets) -> None:
        for partition, offset in offsets.items():
            self.kafka[partition] = offset
            if offset > self._written.get(partition, 0):
                self.violations.add("Kafka was ahead of ZooKeeper")


class _Writing:
    """While a member writes, what changes is its doing."""

    def __init__(self, world: World, member: Member) -> None:
        self._world, self._member = world, member

    def __enter__(self) -> None:
        self._world._writer = self._member

    def __exit__(self, *_: object) -> None:
        self._world._writer = None


def _place(path: str) -> tuple[str, int]:
    topic, number = path.split("/")[-2:]
    return topic, int(number)


def places(topic: str, numbers: Iterable[int]) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}
