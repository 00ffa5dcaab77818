"""A coordinator under virtual time: one shard of groups, the log behind it, and its life from load to load.

Writes are durable at once, unless `hold_writes` says that they take their time. A crash keeps what was durable, as
bytes, and nothing else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.regex import compile_regex
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.metadata import EMPTY_IMAGE, MetadataImage
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Caller, Resolve, Step, Write
from equipoise.coordinator.wall_time import WallTime
from equipoise.simulate.calls import Call
from equipoise.simulate.clock import Clock
from equipoise.simulate.observer import Observer
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, decode_record, encode_key, encode_value
from equipoise.wire.schema import Message

_NO_IDS: Mapping[str, bytes] = {}


class Coordinator:
    """`new_id` makes the last part of member ids. Without it they are numbered by client: a-1, a-2, b-1."""

    def __init__(
        self,
        clock: Clock,
        config: GroupConfig | None = None,
        *,
        observers: Iterable[Observer] = (),
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.clock = clock
        self.config = config or GroupConfig()
        self.observers = list(observers)
        self.wall_ahead_ms = 0  # how far the wall clock is ahead of `clock`
        self.log: list[tuple[bytes, bytes | None]] = []  # what is durable: keys and values of __consumer_offsets
        self.under_way: deque[Write] = deque()
        self.holds_writes = False
        self.write_ms = 0  # how long a write takes
        self.is_deposed = False  # another broker is coordinator, and this one does not know: all its writes fail
        self.inputs = 0  # of the shard, so far
        self.paused_until = 0  # the last pause has ended then, or will
        self._waiting: deque[tuple[Call, int, Mapping[str, bytes]]] = deque()  # what has come in during a pause
        self._new_id = new_id or self._next_of_client
        self._numbers: Counter[str] = Counter()
        self._client = ""
        self.image = EMPTY_IMAGE  # of the topics that there are
        self.shard = self._new_shard()
        clock.follow(self)

    # -- life

    def _new_shard(self) -> Shard:
        shard = Shard(self.config, self._new_id, lambda now: WallTime(now + self.wall_ahead_ms))
        shard.metadata_changed(self.image, self.image.topics, self.clock.now)
        return shard

    def _next_of_client(self) -> str:
        self._numbers[self._client] += 1
        return str(self._numbers[self._client])

    def load(self, keeps: int = 0) -> None:
        """A new shard reads back what was durable; not yet active. Of the writes under way the oldest are durable,
        though nobody has heard of it; the others are lost."""
        for write in list(self.under_way)[:keeps]:
            self._append(write)
        self.under_way.clear()
        self._waiting.clear()
        self.paused_until = min(self.paused_until, self.clock.now)
        self.shard = self._new_shard()
        for record in self.records:
            self.shard.apply(record, self.clock.now)

    def activate(self) -> None:
        """Loading is over."""
        self.run(self.shard.activate(self.clock.now))

    def restart(self) -> None:
        """A crash, and a new start at once."""
        self.load()
        self.activate()

    def close(self) -> None:
        """The shard goes to another broker. Writes under way stay, to be decided."""
        self.run(self.shard.close(self.clock.now))
        self.paused_until = min(self.paused_until, self.clock.now)
        self._resume()

    def depose(self, keeps: int = 0) -> Coordinator:
        """Another broker becomes coordinator with the next `load`, and this one has not heard of it. What comes back
        is this one."""
        for write in list(self.under_way)[:keeps]:
            self._append(write)
        former = copy(self)
        former.is_deposed, former.log, former.write_ms = True, [], 0
        self.under_way, self._waiting = deque(), deque()
        self.clock.follow(former)
        self.clock.at(former.paused_until, former._resume)
        former.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return former

    def pause(self, ms: int) -> None:
        """The broker stops for some time, as in a collection of garbage."""
        self.paused_until = max(self.paused_until, self.clock.now + ms)

    def change_topics(self, image: MetadataImage, names: Iterable[str]) -> None:
        """Topics of these names were created, or have other partitions, or are gone."""
        self.image = image
        self.run(self.shard.metadata_changed(image, names, self.clock.now))

    # -- time

    def next_deadline(self) -> int | None:
        """Of the shard. One that passes in a pause counts when it is over."""
        deadline = self.shard.next_deadline()
        return deadline if deadline is None or deadline >= self.paused_until else self.paused_until

    def tick(self) -> None:
        """The deadlines of the shard that are over fire."""
        self.inputs += 1
        self.run(self.shard.tick(self.clock.now))

    # -- requests

    def receive(self, call: Call, *, hold_ms: int = 0, topic_ids: Mapping[str, bytes] = _NO_IDS) -> None:
        """One request of a group. A heartbeat may be held for `hold_ms`; `topic_ids` are those of committed topics."""
        if self.clock.now < self.paused_until:
            self._waiting.append((call, hold_ms, topic_ids))
            self.clock.at(self.paused_until, self._resume)
            return
        self.inputs += 1
        for observer in self.observers:
            observer.arrived(call, self.shard)
        self._client = getattr(call.request, "group_instance_id", None) or call.client_id
        caller = Caller(call, call.version, call.client_id, call.host)
        now, shard = self.clock.now, self.shard
        match call.request:
            case JoinGroupRequest() as request:
                step = shard.join_group(request, caller, now)
            case SyncGroupRequest() as request:
                step = shard.sync_group(request, caller, now)
            case HeartbeatRequest() as request:
                step = shard.heartbeat(request, caller, now, hold_ms)
            case ConsumerGroupHeartbeatRequest() as request:
                step = shard.consumer_group_heartbeat(request, caller, now, hold_ms)
            case LeaveGroupRequest() as request:
                step = shard.leave_group(request, caller, now)
            case OffsetCommitRequest() as request:
                step = shard.commit_offsets(request, topic_ids, caller, now)
            case OffsetDeleteRequest() as request:
                step = shard.delete_offsets(request, caller, now)
            case DeleteGroupsRequest(groups_names=[group_id]):
                step = shard.delete_group(group_id, caller, now)
            case other:
                raise AssertionError(f"no coordinator takes {other!r}")
        self.run(step)

    def _resume(self) -> None:
        """The pause is over, unless there is another."""
        while self._waiting and self.clock.now >= self.paused_until:
            call, hold_ms, topic_ids = self._waiting.popleft()
            self.receive(call, hold_ms=hold_ms, topic_ids=topic_ids)

    def reply(self, call: Call, response: Message) -> None:
        """The answer leaves the broker."""
        call.answer(response)
        for observer in self.observers:
            observer.answered(call)

    # -- steps and writes

    def run(self, step: Step) -> None:
        """What comes out of the shard happens: events, replies, writes, in this order."""
        for event in step.events:
            for observer in self.observers:
                observer.event(event)
        for caller, response in step.replies:
            self.reply(caller.token, response)
        self.under_way += step.writes
        if self.is_deposed:
            self.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self.holds_writes or self.write_ms:
            self._hold(step.writes)
        elif self.under_way:
            self.durable()
        for observer in self.observers:
            observer.stepped(self.shard)
        for asked in step.resolutions:
            self._resolve(asked)

    def _hold(self, writes: Iterable[Write]) -> None:
        for write in writes:
            for observer in self.observers:
                observer.write_held(write)
            if self.write_ms:
                self.clock.after(self.write_ms, lambda write=write: self._write_due(write))  # type: ignore[misc]

    def _write_due(self, write: Write) -> None:
        """What was written before it is durable too. After a crash it is lost."""
        while any(one is write for one in self.under_way):
            self.durable(1)

    def _resolve(self, asked: Resolve) -> None:
        """At once, and for a caller that may describe everything."""
        names = self.shard.image.topics
        found = {regex: list(filter(compile_regex(regex).matches, names)) for regex in asked.regexes}
        self.run(self.shard.regexes_resolved(asked, found, self.clock.now))

    def hold_writes(self) -> None:
        """From here on a write is durable when `durable` says so, and fails when `fail_writes` says so."""
        self.holds_writes = True

    def durable(self, writes: int | None = None) -> None:
        """The oldest writes under way, or all of them and what follows from them, succeed."""
        while self.under_way and writes != 0:
            self._end(self.under_way.popleft(), ErrorCode.NONE)
            writes = None if writes is None else writes - 1

    def fail_writes(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """All writes under way fail; what follows from that is still to be decided."""
        writes, self.under_way = self.under_way, deque()
        for write in writes:
            self._end(write, error)

    def _end(self, write: Write, error: ErrorCode) -> None:
        for observer in self.observers:
            observer.write_ended(write, error)
        if error is ErrorCode.NONE:
            self._append(write)
        self.inputs += 1
        self.run(self.shard.written(write, error, self.clock.now))

    def _append(self, write: Write) -> None:
        for key, value in write.records:
            self.log.append((encode_key(key), None if value is None else encode_value(value)))

    # -- what it has

    @property
    def records(self) -> list[CoordinatorRecord]:
        """What is durable."""
        return list(_decoded(self.log))

    def journal(self, group_id: str) -> list[Rebalance]:
        """All rebalances of a group that are over, with what they moved."""
        group = self.shard.find(group_id)
        if group is None:
            raise KeyError(group_id)
        journal = group.journal
        while journal.settle() is not None:
            pass
        return list(journal.entries)

    def group(self, group_id: str) -> Group:
        """KeyError if there is none."""
        return self.shard.groups[group_id]


def _decoded(log: Iterable[tuple[bytes, bytes | None]]) -> Iterator[CoordinatorRecord]:
    for key, value in log:
        record = decode_record(key, value)
        assert isinstance(record, CoordinatorRecord)
        yield record
