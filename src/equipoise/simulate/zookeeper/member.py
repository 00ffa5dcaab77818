"""A member of a simulated group: its tasks, and how the actions of its policy are carried out on the tree."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol import actions, nodes
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.errors import ZooKeeperError
from equipoise.zookeeper.protocol.faithful import FaithfulPolicy
from equipoise.zookeeper.protocol.layout import BROKER_IDS, TOPICS, GroupPaths, Registration
from equipoise.zookeeper.protocol.policy import RebalancePolicy
from equipoise.zookeeper.protocol.safe import SafePolicy
from equipoise.zookeeper.protocol.steps import Action, Ended, Steps, Synchronized, advance
from equipoise.zookeeper.protocol.views import Gate, PartitionTopicInfo, Registry

if TYPE_CHECKING:
    from equipoise.simulate.zookeeper.world import World

T = TypeVar("T")
GROUP = "billing"


class Until(NamedTuple):
    """What a task waits for: a condition, or a time."""

    is_so: Callable[[], bool] = lambda: True
    at_ms: float = float("inf")


Task = Generator[Until, None, None]
Performing = Generator[Until, None, Any]


class SimulatedMember:
    """A consumer: its policy, its session, what it fetches."""

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
        self.asked = 0  # requests to ZooKeeper
        self.is_paused = False
        self.pending: set[ConsumerEvent] = set()
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
        """A task begins."""
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
        """Carries out the actions of a policy."""
        go_on: Callable[[], Action[Any]] = partial(next, steps)
        while not isinstance(action := advance(go_on), Ended):
            try:
                yield Until()  # a thread can be stopped between any two actions
                go_on = partial(steps.send, (yield from self._perform(action, me)))
            except Exception as error:  # noqa: BLE001  whatever it is, the policy knows what follows
                go_on = partial(steps.throw, error)
        outcome: T = action.outcome
        return outcome

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

    def _has_lost_more_than(self, before: int) -> bool:
        return self.losses != before

    def _ask(self, operation: Callable[[], T]) -> Generator[Until, None, T]:
        """The request is under way, then its answer. The client of old asks again, in the next session if need be."""
        while True:
            session, losses = self.session, self.losses
            yield Until(lambda: self.is_connected or not self.is_suspended)  # what is asked meanwhile waits
            if self.is_connected and session == self.session:
                self.asked += 1
                outcome = operation()
                yield Until()
                if self.is_connected and losses == self.losses:
                    return outcome
            yield Until(partial(self._has_lost_more_than, losses))  # nobody knows before it is noticed
            if self.config.is_safe:
                raise ZooKeeperError("ConnectionLoss()")

    def _read_all(self, paths: Iterable[str]) -> Generator[Until, None, tuple[nodes.Znode | None, ...]]:
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

        def closing() -> bool:
            return self.policy.is_closing

        match action:
            case actions.Sleep():
                yield Until(closing, until)
            case actions.AwaitQuiet():
                self.pending.discard(ConsumerEvent.REBALANCE)
                yield Until(lambda: bool(self.pending) or closing(), until)
                return ConsumerEvent.REBALANCE not in self.pending
            case actions.AwaitRelease(path):
                before = self.world.tree.get(path) if path else None

                def is_released() -> bool:
                    return bool(path) and (before is None or self.world.tree.get(path) != before)

                yield Until(lambda: is_released() or bool(self.pending - {ConsumerEvent.TOPICS}) or closing(), until)
                self.pending.discard(ConsumerEvent.REBALANCE)
        return None

    # -- the rest

    def _act(self, action: Any) -> Any:
        match action:
            case nodes.SessionId():
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
        self.world.noted(self)
        self.world.check_readers()

    def means(self, topic: str) -> bool:
        """Whether it subscribes to the topic."""
        return bool(self.subscribed.topics([topic], exclude_internal=self.config.exclude_internal_topics))

    def told(self, path: str) -> None:
        """By a watch, if it is set and there is a connection; when one is back, all is looked at."""
        above, _, name = path.rpartition("/")
        if not (self._watches and self.is_connected):
            return
        if above == GroupPaths(GROUP).ids or (above == BROKER_IDS and self._watches_brokers):
            self.pending.add(ConsumerEvent.REBALANCE)
        elif above == TOPICS and self.means(name):
            self.pending |= (
                {ConsumerEvent.REBALANCE}
                if self.subscribed.pattern == "static"
                else set(ConsumerEvent) - {ConsumerEvent.SESSION}
            )

    # -- reading

    def can_read(self, partition: TopicPartition) -> bool:
        """Whether records of the partition are handed out."""
        return partition in self.fetching and self.gate.is_open and not self.is_paused

    def owned(self) -> frozenset[TopicPartition]:
        """What it thinks that it owns."""
        return frozenset(self.policy.topic_registry)


_WRITES = {nodes.Create, nodes.CreateMissing, nodes.EnsurePath, nodes.SetData, nodes.Delete, nodes.Transaction}
