"""What is assigned, where reading stands, and what has been fetched and not yet taken, partition by partition.

Touched by two threads: the application's, which takes records and seeks, and the loop's, which fetches. Every
assignment and seek gives a partition a new epoch; what was fetched for an earlier one is dropped.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from equipoise.client.fetch.completed_fetch import Chunk
from equipoise.client.metadata.leader_epochs import NO_EPOCH, LogPosition, Truncation
from equipoise.member.commits import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition, listed
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from equipoise.wire.schema import ZERO_UUID

MAX_OFFSET = 2**63 - 1  # behind a record there nothing can be: neither fetched nor committed
BY_POLICY = 0  # in place of a timestamp: auto.offset.reset decides


class OffsetOutOfRangeError(KafkaError):
    """The log does not have the position, and auto.offset.reset=none leaves it to the application."""

    def __init__(self, partition: TopicPartition, offset: int, message: str = "") -> None:
        self.partition = partition
        self.offset = offset
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            message
            or f"{partition} has no offset {offset}: what was there is deleted by now, or the log has lost its end; "
            "auto.offset.reset=none: seek() to where to go on",
        )


class LogTruncationError(OffsetOutOfRangeError):
    """Records that were read are lost: an unclean election made a leader of a replica that lacks them (KIP-320).

    `divergent_offset` is where the leader's log parts from what was read; None if nobody can tell."""

    def __init__(self, partition: TopicPartition, truncation: Truncation) -> None:
        (offset, _), divergent = truncation
        self.divergent_offset = None if divergent is None else OffsetAndMetadata(divergent[0], "", divergent[1])
        where = "from where on cannot be told" if divergent is None else f"from offset {divergent.offset} on"
        go_on = "to where to go on" if divergent is None else f"to {divergent.offset} to read what stands there now"
        super().__init__(
            partition,
            offset,
            f"{partition} has lost records before offset {offset}, {where}: its new leader never had them; "
            f"auto.offset.reset=none: seek() {go_on}",
        )


class TopicReplacedError(OffsetOutOfRangeError):
    """The topic was deleted and created anew: offsets of the old one mean nothing in it."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            partition,
            offset,
            f"topic {partition.topic!r} was deleted and created anew: offset {offset} of {partition} was one of the "
            "old topic; auto.offset.reset=none: seek() to where to begin in the new one",
        )


class NoOffsetForPartitionError(KafkaError):
    """A partition has no committed offset, and auto.offset.reset=none leaves it to the application."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"no offset is committed for {listed(partitions)}, and auto.offset.reset=none: seek() to where to begin",
        )


class Failure(NamedTuple):
    """For the application, when it comes to this partition. `passes`: what was tried is tried again once it is told."""

    error: EquipoiseError
    passes: bool


class Tracked:
    """One assigned partition. Under the lock of its `Positions`, all of it."""

    __slots__ = (
        "checked_epoch",
        "chunks",
        "epoch",
        "failure",
        "failures",
        "fetch_offset",
        "high_watermark",
        "in_flight",
        "is_held",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "offset_epoch",
        "partition",
        "position",
        "preferred",
        "preferred_until",
        "queued_bytes",
        "reset",
        "retry_at",
        "topic_id",
    )

    def __init__(self, partition: TopicPartition, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch  # of the assignment or seek; 0: revoked
        self.position: int | None = None  # of the next record for the application
        self.fetch_offset = -1  # of the next fetch: behind what is queued
        self.offset_epoch = NO_EPOCH  # the leader epoch of the last record before what is queued
        self.checked_epoch = NO_EPOCH  # of the leader whose log is known to hold all before `fetch_offset`
        self.topic_id = ZERO_UUID  # of the topic in which the position is one
        self.reset: int | None = None  # the timestamp to seek to, if it is to be looked up
        self.is_paused = False
        self.is_held = False  # fetched, but not for the application yet
        self.chunks: deque[Chunk] = deque()
        self.queued_bytes = 0
        self.failure: Failure | None = None
        self.in_flight = 0  # the number of the fetch that is under way; 0: none
        self.failures = 0  # of fetches in a row
        self.retry_at = 0.0
        self.preferred = -1  # the replica that the leader has sent us to
        self.preferred_until = 0.0
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    @property
    def log_position(self) -> LogPosition | None:
        """The application's."""
        if self.position is None:
            return None
        epoch = self.chunks[0].epoch_before(self.position) if self.chunks else None
        return LogPosition(self.position, self.offset_epoch if epoch is None else epoch)

    @property
    def fetch_position(self) -> LogPosition:
        return LogPosition(self.fetch_offset, self.chunks[-1].last_epoch if self.chunks else self.offset_epoch)

    @property
    def is_ready(self) -> bool:
        """Whether there is something for the application."""
        return not (self.is_paused or self.is_held) and (bool(self.chunks) or self.failure is not None)

    @property
    def is_fetchable(self) -> bool:
        return (
            self.position is not None
            and not self.is_paused
            and self.failure is None
            and not self.in_flight
            and self.fetch_offset <= MAX_OFFSET
        )

    @property
    def may_have_data(self) -> bool:
        """False if the broker has said that there is nothing behind what was fetched."""
        return self.fetch_offset < self.high_watermark or self.high_watermark < 0


class Positions:
    """`on_change` is called, by whichever thread, when there may be something to fetch or to look up."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.Lock()
        self.on_change = on_change
        self.tracked: dict[TopicPartition, Tracked] = {}
        self.ready: dict[TopicPartition, Tracked] = {}  # those with chunks or a failure, whose turn comes first first
        self.queued_bytes = 0
        self.is_short_of_room = False  # something was not fetched because too much is queued
        self._epochs = itertools.count(1)

    # -- assignment

    def assigned(self) -> frozenset[TopicPartition]:
        with self.lock:
            return frozenset(self.tracked)

    def assign(self, added: Iterable[TopicPartition], *, held: bool = False) -> None:
        """These too, from now on. They have no position yet: see `needs_position`. For `held` see `hold`."""
        with self.lock:
            for partition in added:
                if partition not in self.tracked:
                    tracked = self.tracked[partition] = Tracked(partition, next(self._epochs))
                    tracked.is_held = held
        self.on_change()

    def hold(self, held: Iterable[TopicPartition], released: Iterable[TopicPartition]) -> None:
        """Of the first nothing is taken, though it is fetched, until they are among the second."""
        with self.lock:
            for partitions, is_held in ((held, True), (released, False)):
                for partition in partitions:
                    tracked = self.tracked.get(partition)
                    if tracked is not None:
                        tracked.is_held = is_held

    def revoke(self, removed: Iterable[TopicPartition]) -> None:
        """Not these any more, nor what was fetched of them."""
        with self.lock:
            for partition in removed:
                tracked = self.tracked.pop(partition, None)
                if tracked is not None:
                    self._clear(tracked)
                    tracked.epoch = 0
        self.on_change()

    # -- positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record that will be taken; None: not known yet."""
        with self.lock:
            return self._find(partition).position

    def positions(self) -> dict[TopicPartition, int]:
        """All that are known."""
        with self.lock:
            return {key: one.position for key, one in self.tracked.items() if one.position is not None}

    def consumed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of these partitions, or of all, what is known, as it is committed: with the epoch by which the next owner can
        check it."""
        with self.lock:
            chosen = self.tracked if partitions is None else [one for one in partitions if one in self.tracked]
            found = {key: self.tracked[key].log_position for key in chosen}
        return {
            key: OffsetAndMetadata(one.offset, "", one.leader_epoch)
            for key, one in found.items()
            if one is not None and one.offset <= MAX_OFFSET
        }

    def needs_position(self) -> dict[TopicPartition, int]:
        """Those for which a committed offset is to be looked up, or a reset to be asked for; with their epochs."""
        with self.lock:
            return {
                key: one.epoch
                for key, one in self.tracked.items()
                if one.position is None and one.reset is None and one.failure is None
            }

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """With the leader epoch of the last record before it, the position is checked before it is read from."""
        if offset < 0:
            raise UsageError(f"offset {offset} of {partition} is negative: offsets begin at 0")
        if offset > MAX_OFFSET:
            raise UsageError(f"offset {offset} of {partition} is too large: offsets end at {MAX_OFFSET}")
        with self.lock:
            self._move(self._find(partition), offset, leader_epoch)
        self.on_change()

    def begin(self, lacking: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, LogPosition]) -> None:
        """At a committed offset, or as auto.offset.reset says; not if anything has happened to the partition since it
        had the epoch in `lacking`: others may have had it meanwhile."""
        with self.lock:
            for partition, epoch in lacking.items():
                tracked = self.tracked.get(partition)
                if tracked is None or tracked.epoch != epoch:
                    continue
                if partition in committed:
                    self._move(tracked, *committed[partition])
                else:
                    self.look_up(tracked, BY_POLICY)
        self.on_change()

    def request_reset(self, partitions: Iterable[TopicPartition], timestamp: int = BY_POLICY) -> None:
        """Their positions are looked up by timestamp (LATEST, EARLIEST, a time), or as auto.offset.reset says."""
        with self.lock:
            for partition in partitions:
                self.look_up(self._find(partition), timestamp)
        self.on_change()

    def resets(self) -> dict[TopicPartition, tuple[int, int]]:
        """Timestamp and epoch of those that are to be looked up now."""
        with self.lock:
            return {
                key: (one.reset, one.epoch)
                for key, one in self.tracked.items()
                if one.reset is not None and one.failure is None
            }

    def reset_to(self, partition: TopicPartition, epoch: int, at: LogPosition) -> None:
        """Takes effect if nothing else has happened to the partition since it had this epoch."""
        with self.lock:
            tracked = self.tracked.get(partition)
            if tracked is None or tracked.epoch != epoch:
                return
            self._move(tracked, *at)
        self.on_change()

    def reset_later(self, partition: TopicPartition, epoch: int, timestamp: int) -> None:
        """To be looked up by another timestamp."""
        with self.lock:
            tracked = self.tracked.get(partition)
            if tracked is not None and tracked.epoch == epoch:
                tracked.reset = timestamp

    def fail(self, partition: TopicPartition, epoch: int, failure: Failure) -> None:
        """Tells the application when it comes to this partition. Unless it passes, only a seek goes on from there."""
        with self.lock:
            tracked = self.tracked.get(partition)
            if tracked is not None and tracked.epoch == epoch:
                tracked.reset = tracked.reset if failure.passes else None
                tracked.failure = failure
                self.ready[partition] = tracked

    # -- pauses

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these is fetched or taken; what was fetched is kept."""
        self._set_paused(partitions, True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._set_paused(partitions, False)
        self.on_change()

    def paused(self) -> frozenset[TopicPartition]:
        with self.lock:
            return frozenset(key for key, one in self.tracked.items() if one.is_paused)

    def _set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        with self.lock:
            found = [self._find(partition) for partition in partitions]
            for tracked in found:
                tracked.is_paused = is_paused

    # -- what the broker says of them

    def high_watermark(self, partition: TopicPartition) -> int | None:
        with self.lock:
            known = self._find(partition).high_watermark
            return None if known < 0 else known

    def lag(self, partition: TopicPartition, *, committed_only: bool) -> int | None:
        """Records from the position to the end, as of the last fetch; None: not known yet."""
        with self.lock:
            tracked = self._find(partition)
            end = tracked.last_stable_offset if committed_only else tracked.high_watermark
            return None if end < 0 or tracked.position is None else max(0, end - tracked.position)

    # -- under the lock, for those who fetch and take

    def takeable_bytes(self) -> int:
        """What is queued and can be taken now. What is paused may lie for ever, and must not stop the others."""
        lying = sum(one.queued_bytes for one in self.tracked.values() if one.is_paused or one.is_held)
        return self.queued_bytes - lying

    def add_chunk(self, tracked: Tracked, chunk: Chunk) -> None:
        tracked.chunks.append(chunk)
        tracked.fetch_offset = chunk.next_offset
        tracked.queued_bytes += chunk.size
        self.queued_bytes += chunk.size
        self.ready.setdefault(tracked.partition, tracked)

    def pop_chunk(self, tracked: Tracked) -> None:
        """The first is read: the position goes behind it."""
        chunk = tracked.chunks.popleft()
        tracked.position, tracked.offset_epoch = chunk.next_offset, chunk.last_epoch
        tracked.queued_bytes -= chunk.size
        self.queued_bytes -= chunk.size
        if not tracked.chunks and tracked.failure is None:
            del self.ready[tracked.partition]

    def stop_at(self, tracked: Tracked, offset: int, error: KafkaError) -> None:
        """Nothing is read from there on, until the application seeks."""
        self._move(tracked, offset)
        tracked.failure = Failure(error, passes=False)
        self.ready[tracked.partition] = tracked

    def drop_queued(self, tracked: Tracked) -> None:
        """What was fetched is fetched again, from the application's position on."""
        at = tracked.log_position
        assert at is not None
        self._move(tracked, *at)

    def go_back(self, tracked: Tracked, to: LogPosition) -> None:
        self._move(tracked, *to)

    def look_up(self, tracked: Tracked, timestamp: int) -> None:
        self._move(tracked, None)
        tracked.reset = timestamp

    def told(self, tracked: Tracked) -> Failure:
        """The failure, now that the application hears of it."""
        failure = tracked.failure
        assert failure is not None
        if failure.passes:
            tracked.failure = None
            del self.ready[tracked.partition]
        return failure

    def _find(self, partition: TopicPartition) -> Tracked:
        tracked = self.tracked.get(partition)
        if tracked is None:
            raise UsageError(
                f"{partition} is not assigned to this consumer; it has {listed(self.tracked) or 'nothing'}"
            )
        return tracked

    def _move(self, tracked: Tracked, offset: int | None, leader_epoch: int = NO_EPOCH) -> None:
        self._clear(tracked)
        tracked.epoch = next(self._epochs)
        tracked.position = offset
        tracked.fetch_offset = -1 if offset is None else offset
        tracked.offset_epoch, tracked.checked_epoch = leader_epoch, NO_EPOCH
        tracked.reset = tracked.failure = None
        tracked.failures, tracked.retry_at, tracked.in_flight = 0, 0.0, 0

    def _clear(self, tracked: Tracked) -> None:
        self.ready.pop(tracked.partition, None)
        self.queued_bytes -= tracked.queued_bytes
        tracked.chunks.clear()
        tracked.queued_bytes = 0
