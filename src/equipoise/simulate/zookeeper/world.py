"""Members of a group on a tree in memory: both policies, virtual time, one thread, and chance by a seed.

Every member has tasks: its executor, its first rebalance, commits of the application. A task stops before each action,
before the answer of ZooKeeper, and whenever it waits; the world draws which task goes on. What a member has asked for
may be done and its answer lost.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from equipoise.member.partitions import TopicPartition
from equipoise.simulate.zookeeper.member import GROUP, SimulatedMember, Task, Until
from equipoise.simulate.zookeeper.tree import Tree
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.layout import (
    BROKER_IDS,
    GroupPaths,
    Registration,
    TopicFilter,
    broker_json,
    topic_json,
    topic_path,
)
from equipoise.zookeeper.protocol.views import Offsets, PartitionTopicInfo

SESSION_MS, NOTICED_MS = 6_000, 4_000  # a client gives a silent server up after two thirds of a session


class Record(NamedTuple):
    """One that was handed out."""

    member: str
    partition: TopicPartition
    offset: int
    token: int


class World:
    """`violations`: what must not happen in safe mode, and does as it was."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.tree = Tree()
        self.tree.changed = self._changed
        self.paths = GroupPaths(GROUP)
        self.members: list[SimulatedMember] = []
        self.ends: dict[TopicPartition, int] = {}  # of the logs
        self.kafka: dict[TopicPartition, int] = {}
        self.records: list[Record] = []
        self.violations: set[str] = set()
        self.noted: Callable[[SimulatedMember], None] = lambda member: None  # it fetches other partitions
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._writer: SimulatedMember | None = None
        self._written: dict[TopicPartition, int] = {}
        self.tree.create(f"{BROKER_IDS}/0", broker_json("host", 9092, 0))

    # -- topics

    def topic(self, name: str, partitions: int) -> None:
        """A topic, or more partitions of one."""
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

    def _hand_out(self, member: SimulatedMember, info: PartitionTopicInfo) -> None:
        offset = info.consumed or 0  # auto.offset.reset=smallest
        info.consumed = offset + 1
        self.records.append(Record(member.name, info.partition, offset, info.token))
        self.check_readers()

    # -- members

    def join(self, name: str, topics: Mapping[str, int] | TopicFilter, **settings: object) -> SimulatedMember:
        """A new consumer; `settings` as for ZooKeeperConsumer, with underscores."""
        subscribed = (
            Registration({topics.regex: 1}, topics.pattern)
            if isinstance(topics, TopicFilter)
            else Registration(dict(topics))
        )
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.members.append(SimulatedMember(self, name, subscribed, given))
        return self.members[-1]

    def gone(self, member: SimulatedMember) -> None:
        """Its session ends."""
        if member in self.members:
            self.members.remove(member)
        self.tree.end_session(member.session)

    def die(self, member: SimulatedMember) -> None:
        """Its process is killed; ZooKeeper notices when the session is over."""
        member.tasks.clear()
        member.fetching, member.is_paused = {}, True
        self.after(SESSION_MS, lambda: self.gone(member))

    # -- faults

    def cut_off(self, member: SimulatedMember, ms: int, noticed_ms: int | None = None) -> None:
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

    def _notice(self, member: SimulatedMember) -> None:
        member.losses += 1
        member.is_suspended = True
        member.policy.handle_state_changed("SUSPENDED")

    def _connect(self, member: SimulatedMember, is_over: bool) -> None:
        if member not in self.members:
            return
        if is_over:
            member.losses += 1
            member.policy.handle_state_changed("LOST")
            member.session = self.tree.new_session()
        member.is_connected, member.is_suspended = True, False
        event = member.policy.handle_state_changed("CONNECTED")
        member.pending |= {event} if event is not None else set()
        member.pending.add(ConsumerEvent.REBALANCE)  # a watch that is set anew finds another list

    def pause(self, member: SimulatedMember, ms: int) -> None:
        """The whole process stops, and knows nothing of it. A moment passes before it hears that it was missed."""
        member.is_paused = True

        def resume() -> None:
            member.is_paused = False

        noticed = ms + self.chance.randint(0, 3)
        self.after(ms, resume)
        self.cut_off(member, noticed + self.chance.randint(0, 3), noticed)

    def after(self, ms: int, act: Callable[[], None]) -> None:
        """Plans an action."""
        self._timers.append((self.now + ms, act))

    # -- time

    def run(self, ms: int, reads: int = 1) -> None:
        """So much time passes."""
        end = self.now + ms
        while self.now < end:
            self._step(end)
            self.read(reads if self.chance.random() < 0.2 else 0)

    def run_until(self, is_so: Callable[[], bool], most_ms: int = 120_000) -> bool:
        """Until a condition holds, or the time is over: whether it holds."""
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

    def _advance(self, member: SimulatedMember, one: tuple[Task, Until]) -> None:
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
        """The threads that own partitions."""
        found = {}
        for partition in self.ends:
            node = self.tree.get(self.paths.owner(partition))
            if node is not None:
                found[partition] = node.data.decode()
        return found

    def offset(self, partition: TopicPartition) -> int | None:
        """The offset of a partition in ZooKeeper."""
        node = self.tree.get(self.paths.offset(partition))
        return int(node.data) if node else None

    def is_settled(self) -> bool:
        """Every partition is owned and fetched by one member, which knows it."""
        fetched = [partition for member in self.members for partition in member.fetching if member.can_read(partition)]
        ids = {member.policy.consumer_id for member in self.members}
        owners = {thread.rpartition("-")[0] for thread in self.owners().values()}
        return sorted(fetched) == sorted(self.ends) == sorted(self.owners()) and owners <= ids

    def is_read(self) -> bool:
        """Whether somebody has read each record."""
        seen = {(record.partition, record.offset) for record in self.records}
        return all((partition, at) in seen for partition, end in self.ends.items() for at in range(end))

    def read_twice(self) -> set[tuple[TopicPartition, int]]:
        """The records that were handed out more than once."""
        rows = [(record.partition, record.offset) for record in self.records]
        return {row for row in rows if rows.count(row) > 1}

    # -- what must not happen

    @contextmanager
    def writing(self, member: SimulatedMember) -> Iterator[None]:
        """What changes meanwhile is this member's doing."""
        self._writer = member
        yield
        self._writer = None

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
        """A partition has one reader."""
        for partition in self.ends:
            if sum(member.can_read(partition) for member in self.members) > 1:
                self.violations.add("a partition had two readers")

    def commit_to_kafka(self, offsets: Offsets) -> None:
        """With dual commit: the same offsets in Kafka."""
        for partition, offset in offsets.items():
            self.kafka[partition] = offset
            if offset > self._written.get(partition, 0):
                self.violations.add("Kafka was ahead of ZooKeeper")


def _place(path: str) -> tuple[str, int]:
    topic, number = path.split("/")[-2:]
    return topic, int(number)


def places(topic: str, numbers: Iterable[int]) -> set[TopicPartition]:
    """Partitions of a topic."""
    return {TopicPartition(topic, number) for number in numbers}
