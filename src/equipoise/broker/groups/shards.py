"""Runs the coordinator: shards of groups on the partitions of `__consumer_offsets`, their timers and writes.

A shard decides (`coordinator/`); this file acts. It appends the records of one turn of the loop in one batch, sends
replies, and calls the shard again when a deadline passes or a write is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate, chain, islice
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from equipoise.broker.clock import Timer
from equipoise.broker.groups.journal import GroupJournal
from equipoise.broker.groups.loader import CoordinatorLoader
from equipoise.broker.shard_life import DeadlineTimer, batches_of
from equipoise.broker.topics.topics import Partition
from equipoise.coordinator.changes import is_void
from equipoise.coordinator.offsets.commit import KnownCommit, begin_commits, join_commits, takes_more
from equipoise.coordinator.outcomes import AssignmentWritten, CommitsWritten, OffsetsCommitted
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.step import Caller, Producer, Step, Write
from equipoise.garbage import without_collection
from equipoise.log.producer_state import UNVERIFIED, TxnMarker, Verification
from equipoise.random_uuid import random_uuid
from equipoise.wire.apis.k12_heartbeat import HeartbeatResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError
from equipoise.wire.offsets_records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from equipoise.wire.records.batch import HEADER_SIZE, read_header
from equipoise.wire.records.build import build_pairs
from equipoise.wire.schema import ZERO_UUID, Message
from equipoise.wire.uuids import dashed

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.coordinator.classic.group import ClassicGroupMember
    from equipoise.log.partition import LogAppendInfo

log = logging.getLogger(__name__)

Pair = tuple[bytes, bytes | None]  # a key and its value, as they are written
_CROWD = 1000  # members: their assignment takes milliseconds to write
_PORTION = 50  # replies that leave at once; of more, so many together: their clients come back with more work
_MOST_WRITES = 100  # in one batch: what follows takes milliseconds, in one turn of the loop
_ROOM_FOR_COMMITS = 256 << 10  # bytes of a batch: several times what the commits of one write may take
_ENCODING_S = 0.002  # records become bytes for so long in one turn of the loop
_RECORD_OVERHEAD = 21  # lengths, deltas and attributes of a record, at most (DefaultRecord.MAX_RECORD_OVERHEAD)


class GroupShard:
    """One shard: the core, its partition, and what is under way between them."""

    def __init__(self, server: Server, journal: GroupJournal, partition: Partition) -> None:
        coordinator = server.group_coordinator
        self.core = Shard(coordinator.config, lambda: dashed(random_uuid()), server.wall_time_of)
        self.core.image = coordinator.image
        self.core.own_settings = coordinator.configs.settings
        self.core.is_prepared = coordinator.preparation.is_done
        self.core.computes_beside = True
        self._server = server
        self._journal = journal
        self.partition = partition
        self._timer = DeadlineTimer(server.clock, self.core.timers.next_deadline, self._tick)
        self._replies: deque[tuple[Caller, Message]] = deque()  # of a crowd, that leave in portions
        self._gathered: _Batch | None = None  # writes not yet appended
        self._appended: dict[_Batch, None] = {}  # not yet durable
        self._is_retired = False
        self._is_tick_queued = False
        self._begun = self._ended = 0  # writes
        self._after_writes: deque[tuple[int, Callable[[], None]]] = deque()
        self._after_load: list[Callable[[], None]] = []

    # -- life

    @property
    def node_id(self) -> int:
        """The broker that leads the partition, and so coordinates the groups."""
        return self.partition.leader

    async def load(self) -> None:
        """Replays the partition, letting others have their turn; then members' sessions begin. What a broker before us
        has written is durable first."""
        try:
            await self._replay()
        except (KafkaError, ProtocolError, OSError) as error:
            log.error("%s could not be loaded, its groups are not served: %s", self.partition.log.name, error)
            self.run(self.core.close(self._server.clock.now()))
            return
        if self._is_retired:
            return
        self.activate()

    def activate(self) -> None:
        """All that the log says is known: the shard serves."""
        self.run(self.core.activate(self._server.clock.now()))
        callbacks, self._after_load = self._after_load, []
        for callback in callbacks:
            callback()

    async def _replay(self) -> None:
        loader = CoordinatorLoader(self.core, self._server.clock.now())
        async for view, pos, header in batches_of(self.partition):
            if self._is_retired:
                return
            loader.take_batch(view, pos, header)

    def close(self) -> None:
        """Answers what is parked, and accepts no more requests."""
        self._timer.cancel()
        self.run(self.core.close(self._server.clock.now()))
        while self._replies:
            self._reply()

    def retire(self) -> None:
        """Another broker has the shard. Whoever waits is to look for it there, also those whose records are in the log
        but not yet durable; what was only gathered is never written (CoordinatorRuntime.scheduleUnloadOperation)."""
        self._is_retired = True
        self.close()
        gathered, self._gathered = self._gathered, None
        for batch in (*self._appended, *([gathered] if gathered is not None else ())):
            self._done(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- steps

    def run(self, step: Step) -> None:
        """Does what the shard has decided: sends replies, writes records, notes events."""
        self._take(step)
        self._timer.arm()

    def _take(self, step: Step, *, is_of_crowd: bool = False) -> None:
        if len(step.replies) <= _PORTION and not is_of_crowd:
            for caller, response in step.replies:
                caller.token.reply(response)
        elif step.replies:
            is_sending = bool(self._replies)
            self._replies.extend(step.replies)
            if not is_sending:  # this turn of the loop has been long: others come before the first portion
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, self._reply)
        for write in step.writes:
            self._write(write)
        if step.events:
            self._journal.take(self.core, step.events)
        for asked in step.resolutions:
            self._server.group_coordinator.regexes.resolve(self, asked)
        for wanted in step.targets:
            self._server.group_coordinator.targets.compute(self, wanted)
        if step.needs_preparation:
            self._server.group_coordinator.preparation.begin()

    def _reply(self) -> None:
        """The next portion. Between two of them others are served, so that a large group does not hold them up."""
        began = monotonic()
        for _ in range(min(_PORTION, len(self._replies))):
            caller, response = self._replies.popleft()
            caller.token.reply(response)
        self._server.turns.spend(monotonic() - began)
        if self._replies:
            asyncio.get_running_loop().call_soon(self._reply)

    def after_load(self, callback: Callable[[], None]) -> None:
        """Calls back when the shard serves, which may be at once."""
        if self.core.status is Status.LOADING:
            self._after_load.append(callback)
        else:
            callback()

    def after_writes(self, callback: Callable[[], None]) -> None:
        """Calls back when what was decided before this moment is on disk; writes that begin later do not delay it."""
        if self._ended >= self._begun:
            callback()
        else:
            self._after_writes.append((self._begun, callback))

    def commits_under_way(self, group_id: str) -> Iterator[tuple[str, int]]:
        """The topics and partitions of a group's commits that have no effect yet."""
        if group_id in self.core.offsets.commits_under_way:
            keys = (key for key, _ in self._under_way())
            yield from ((key.topic, key.partition) for key in keys if key.group == group_id)

    def commits_under_way_of(self, topic: str, topic_id: bytes) -> Iterator[tuple[str, int]]:
        """The groups and partitions of commits for a topic that have no effect yet."""
        for key, value in self._under_way():
            if key.topic == topic and value.topic_id in (topic_id, ZERO_UUID):
                yield key.group, key.partition

    def _under_way(self) -> Iterator[tuple[OffsetCommitKey, OffsetCommitValue]]:
        gathered = () if self._gathered is None else (self._gathered,)
        for write in chain.from_iterable(batch.writes for batch in (*self._appended, *gathered)):
            if isinstance(write.outcome, OffsetsCommitted | CommitsWritten):
                for key, value in write.records:
                    if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                        yield key, value

    def _tick(self) -> None:
        """When much has come in this turn of the loop, timers wait for the next one."""
        if not self._server.turns.is_busy:
            self._tick_now()
        elif not self._is_tick_queued:
            self._is_tick_queued = True
            asyncio.get_running_loop().call_soon(self._tick_now)

    def _tick_now(self) -> None:
        self._is_tick_queued = False
        if self.core.status is Status.ACTIVE:
            now, began = self._server.clock.now(), monotonic()
            with without_collection():  # 10,000 members that are answered at once are as many new objects
                step = self.core.tick(now)
            for caller, response in step.replies:
                if isinstance(response, HeartbeatResponse | ConsumerGroupHeartbeatResponse):
                    caller.token.connection.held_heartbeat.ran_out(now)
            self.run(step)
            self._server.turns.spend(monotonic() - began)

    # -- writes

    def _write(self, write: Write) -> None:
        """Gathers. While the disk is busy with a round of syncs the batch grows: it would not be durable earlier."""
        self._begun += 1
        if self._is_retired:
            self._tell([write], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._gathered is None:
            self._gather(deque((write,)))
        else:
            self._gathered.writes.append(write)

    def join_commits(
        self,
        member: ClassicGroupMember,
        known: KnownCommit,
        offsets: Iterable[tuple[int, int]],
        *,
        caller: Caller,
        now: int,
    ) -> None:
        """A commit of a member that the core has found waits for the disk with those before it, in their write."""
        gathered = self._gathered
        is_new = gathered is None or not (takes_more(gathered.writes[-1]) and self._holds_many)
        write = begin_commits() if gathered is None or is_new else gathered.writes[-1]
        join_commits(self.core, write, member, known, offsets=offsets, caller=caller, now=now)
        if is_new:
            self._write(write)
            self._timer.arm()

    @property
    def _holds_many(self) -> bool:
        """Whether one batch is sure to hold commits that do not know of each other."""
        return self.partition.topic.settings.message_max_bytes >= _ROOM_FOR_COMMITS

    def _gather(self, writes: deque[Write]) -> None:
        self._gathered = batch = _Batch(writes)
        timeout = self._server.config.offsets_commit_timeout_ms
        batch.timer = self._server.clock.call_later(timeout, lambda: self._time_out(batch))
        if self._server.flusher.after_round(self._append):
            return
        loop = asyncio.get_running_loop()
        if _is_of_a_crowd(writes[0]):  # its SyncGroup took long to read: others come before its record is made
            loop.call_soon(loop.call_soon, self._append)
        else:
            loop.call_soon(self._append)

    def _append(self) -> None:
        """The writes of a crowd count in the turn of the loop, and wait for the next one when it has been long already;
        not behind what the crowd has still to say, for it waits for them."""
        if self._gathered is None or len(self._gathered.writes) <= _PORTION:
            self._append_gathered(_ENCODING_S)
        elif self._server.turns.is_busy:
            asyncio.get_running_loop().call_soon(self._append_many)
        else:
            self._append_many()

    def _append_many(self) -> None:
        began = monotonic()
        self._append_gathered(_ENCODING_S)
        self._server.turns.spend(monotonic() - began)

    def _append_gathered(self, encoding_s: float) -> None:
        batch, self._gathered = self._gathered, None
        if batch is None:
            return
        self._drop_void(batch)
        try:
            pairs = self._fill(batch, encoding_s)
            if pairs is None:
                return
            batch.is_appended = True
            self._appended[batch] = None
            last_offset = self.partition.log.log_end_offset - 1
            if pairs:
                last_offset = self._append_pairs(pairs, batch.writes[0].producer)
        except KafkaError as error:
            batch.is_appended = False
            self._done(batch, error.code)
            return
        self.partition.when_settled(last_offset, lambda: self._settled(batch, last_offset))

    def _append_pairs(self, pairs: list[Pair], producer: Producer | None) -> int:
        """Records of a transaction have been admitted when they were decided on. Rule T.67."""
        stamp, verification = self._server.clock.wall_time(), UNVERIFIED
        if producer is not None:
            verification = Verification({producer})
        data = memoryview(build_pairs(pairs, stamp, producer))
        return self._server.append(
            self.partition, data, [(0, read_header(data))], stamp, keyed=True, verification=verification
        ).last_offset

    def append_marker(self, marker: TxnMarker) -> LogAppendInfo:
        """Ends a transaction with offsets of this shard, behind those that it has written. When the marker is durable
        they count, or are gone. Rule T.69. Kafka: CoordinatorRuntime.scheduleTransactionCompletion."""
        self.write_gathered(marker.producer_id)
        appended = self.partition.append_marker(marker, self._server.clock.wall_time())
        self._begun += 1
        self.partition.when_settled(appended.last_offset, partial(self._ended_by, marker, appended.last_offset))
        return appended

    def write_gathered(self, producer_id: int) -> None:
        """What the producer's transaction has gathered is appended now."""
        while self._gathered is not None and self._gathered.has_of(producer_id):
            self._append_gathered(encoding_s=inf)

    def _ended_by(self, marker: TxnMarker, offset: int) -> None:
        self._ended += 1
        if self.partition.is_durable(offset):
            self.core.offsets.end_transaction(marker.producer_id, commit=marker.commit)
        self._call_back()

    def _drop_void(self, batch: _Batch) -> None:
        """What has built on a write that failed is not written."""
        if self.core.voided and any(is_void(self.core, write) for write in batch.writes):
            void = [write for write in batch.writes if is_void(self.core, write)]
            batch.writes = deque(write for write in batch.writes if not is_void(self.core, write))
            batch.take_encoded()
            self._tell(void, ErrorCode.NONE)

    def _fill(self, batch: _Batch, encoding_s: float) -> list[Pair] | None:
        """The records of as many writes as one batch may hold, and one turn of the loop may encode; the others are
        gathered anew. None: the first write is a large target, which takes several turns.

        Those of one write stay together, or are refused before any is written: no reader could be sure to get them, and
        the loop would stand still for as long as they take. A write that need not be atomic has its first records
        appended, and goes on in the next batch (CoordinatorRuntime.CoordinatorContext.append).
        """
        limit = self.partition.topic.settings.message_max_bytes - HEADER_SIZE
        pairs, count, weight, ends = list[Pair](), 0, 0, monotonic() + encoding_s
        for write in batch.writes:
            if count and (write.producer is not None or batch.writes[0].producer is not None):
                break  # a transaction's records have a batch of their own
            is_whole = batch.encode(write, ends)
            size = batch.encoded_size + _RECORD_OVERHEAD * len(batch.encoded)
            if count and (size > limit or not is_whole or weight >= _MOST_WRITES):
                break
            if size > limit:
                if pairs := batch.begin_first(limit):
                    count = 1
                    break
                batch.take_encoded()
                self._gather_rest(batch, 1)
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"records of {size} bytes; max.message.bytes is less")
            if not is_whole:
                self._gathered = batch
                asyncio.get_running_loop().call_soon(self._append_many)
                return None
            pairs += batch.take_encoded()
            limit -= size
            count += 1
            weight += len(write.encoded or "1")
        self._gather_rest(batch, count)
        return pairs

    def _gather_rest(self, batch: _Batch, count: int) -> None:
        """What is behind the first `count` writes comes later."""
        if rest := batch.split(count):
            self._gather(rest)
            assert self._gathered is not None
            self._gathered.encoded, self._gathered.encoded_size = batch.encoded, batch.encoded_size

    def _settled(self, batch: _Batch, last_offset: int) -> None:
        durable = self.partition.is_durable(last_offset)
        self._done(batch, ErrorCode.NONE if durable else ErrorCode.KAFKA_STORAGE_ERROR)

    def _time_out(self, batch: _Batch) -> None:
        """What is only gathered is never written. What is in the log may yet become durable: who waits is answered, and
        the disk decides on its effect. Kafka: CoordinatorRuntime.OperationTimeout.run."""
        if batch.is_appended:
            batch.is_late = True
            self._ended -= batch.is_beginning
            self._tell(batch.writes, ErrorCode.REQUEST_TIMED_OUT, is_lost=False)
            return
        if batch is self._gathered:
            self._gathered = None
        self._done(batch, ErrorCode.REQUEST_TIMED_OUT)

    def _done(self, batch: _Batch, error: ErrorCode) -> None:
        """Tells the outcome, once. After a time-out nobody waits for it any more, but the shard."""
        if batch.timer is not None:
            batch.timer.cancel()
        self._appended.pop(batch, None)
        writes, batch.writes = batch.writes, deque()
        if batch.is_late:
            self._tell_late(writes, error)
            return
        if writes:
            self._ended -= batch.is_beginning  # its write has ended with the last of its batches
        is_lost = not (batch.is_appended and error is ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._tell(writes, error, is_lost=is_lost)

    def _tell_late(self, writes: Iterable[Write], error: ErrorCode) -> None:
        step = Step(self._server.clock.now())
        for write in writes:
            self.core.settle_late(write, error, step)
        self.run(step)

    def _tell(self, writes: Iterable[Write], error: ErrorCode, *, is_lost: bool = True) -> None:
        step, writes = Step(self._server.clock.now()), list(writes)
        is_of_crowd, began = len(writes) > _PORTION, monotonic()  # of thousands that come together, each has a write
        try:
            for write in writes:
                self._ended += 1
                self.core.settle_write(write, error, step, is_lost=is_lost)
        finally:  # a bug that one write meets leaves those before it answered
            self._take(step, is_of_crowd=is_of_crowd)
        self._timer.arm()
        self._call_back()
        if is_of_crowd:
            self._server.turns.spend(monotonic() - began)

    def _call_back(self) -> None:
        while self._after_writes and self._after_writes[0][0] <= self._ended:
            self._after_writes.popleft()[1]()


def _is_of_a_crowd(write: Write) -> bool:
    """The assignment of thousands."""
    if type(write.outcome) is not AssignmentWritten:
        return False
    value = write.records[0].value
    return isinstance(value, GroupMetadataValue) and len(value.members) >= _CROWD


class _Batch:
    """Writes of one append, and the time by which they must be durable. Of the first write that is not taken,
    `encoded` has the records that are bytes already."""

    __slots__ = ("encoded", "encoded_size", "is_appended", "is_beginning", "is_late", "timer", "writes")

    def __init__(self, writes: deque[Write]) -> None:
        self.writes = writes
        self.encoded: list[Pair] = []
        self.encoded_size = 0
        self.is_appended = False
        self.is_beginning = False  # of a write that goes on in the next batch
        self.is_late = False  # who waited has heard of a time-out; the disk has not answered yet
        self.timer: Timer | None = None

    def has_of(self, producer_id: int) -> bool:
        """Whether a write belongs to a transaction of the producer."""
        return any(write.producer is not None and write.producer.producer_id == producer_id for write in self.writes)

    def encode(self, write: Write, ends: float) -> bool:
        """Goes on with the records of a write, until then. Whether all of them are bytes."""
        if write.encoded is not None:
            made = write.encoded[len(self.encoded) :]
            self.encoded += made
            self.encoded_size += sum(map(len, chain.from_iterable(made)))
            return True
        for key, value in islice(write.records, len(self.encoded), None):
            pair = encode_key(key), encode_value(value) if value else None
            self.encoded.append(pair)
            self.encoded_size += len(pair[0]) + len(pair[1] or b"")
            if monotonic() >= ends:
                break
        return len(self.encoded) == len(write.records)

    def take_encoded(self) -> list[Pair]:
        """The records that are bytes; the next write begins anew."""
        found, self.encoded, self.encoded_size = self.encoded, [], 0
        return found

    def begin_first(self, limit: int) -> list[Pair]:
        """As many records of the first write as that, if they need not stay together. They become a write of their own,
        and the others the next one, whose outcome is that of all."""
        write = self.writes[0]
        if write.is_atomic:
            return []
        sizes = accumulate(len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in self.encoded)
        count = sum(size <= limit for size in sizes)
        if not count:
            return []
        begun, self.encoded = self.encoded[:count], self.encoded[count:]
        self.encoded_size = sum(len(key) + len(value or b"") for key, value in self.encoded)
        self.writes[0] = write._replace(records=write.records[count:])
        self.writes.appendleft(Write(write.records[:count]))
        self.is_beginning = True
        return begun

    def split(self, count: int) -> deque[Write]:
        """Keeps the first `count` and gives back the others, however many they are."""
        if count == len(self.writes):
            return deque()
        kept, rest = deque(self.writes.popleft() for _ in range(count)), self.writes
        self.writes = kept
        return rest
