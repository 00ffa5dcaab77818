"""The state of each partition: whether it is assigned, its position, and what is fetched and not yet taken.

Two threads use it: the application's takes records and seeks, the loop's fetches. Every assignment and seek gives a
partition a new epoch. What was fetched for an earlier epoch is dropped.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.fetch.hand import Hand
from equipoise.client.fetch.records import ConsumerRecord
from equipoise.client.metadata.leader_epochs import NO_EPOCH, LogPosition, Truncation
from equipoise.member.commits import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition, listed
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from equipoise.wire.schema import ZERO_UUID

MAX_OFFSET = 2**63 - 1  # behind a record there nothing can be: neither fetched nor committed
BY_POLICY = 2**63  # in place of a timestamp, and none itself: auto.offset.reset decides


class OffsetOutOfRangeError(KafkaError):
    """The log does not have the position, and auto.offset.reset=none leaves the decision to the application."""

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
    """The topic was deleted and created again: old offsets mean nothing in it."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            partition,
            offset,
            f"topic {partition.topic!r} was deleted and created anew: offset {offset} of {partition} was one of the "
            "old topic; auto.offset.reset=none: seek() to where to begin in the new one",
        )


class NoOffsetForPartitionError(KafkaError):
    """A partition has no commit, and auto.offset.reset=none leaves the decision to the application."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"no offset is committed for {listed(partitions)}, and auto.offset.reset=none: seek() to where to begin",
        )


class FetchFailure(NamedTuple):
    """For the application, when it comes to this partition. `passes`: what was tried is tried again once it is told."""

    error: EquipoiseError
    passes: bool


@dataclass(slots=True, eq=False)
class TopicPartitionState:
    """One assigned partition. Under the lock of its `Positions`, all of it."""

    partition: TopicPartition
    epoch: int  # of the assignment or seek; 0: revoked
    position: int | None = None  # of the next record for the application
    fetch_offset: int = -1  # of the next fetch: behind what is queued
    offset_epoch: int = NO_EPOCH  # the leader epoch of the last record before what is queued
    validated_epoch: int = NO_EPOCH  # of the leader whose log is known to hold all before `fetch_offset`
    topic_id: bytes = ZERO_UUID  # of the topic in which the position is one
    reset: int | None = None  # the timestamp to seek to, if it is to be looked up
    is_paused: bool = False
    is_held: bool = False  # fetched, but not for the application yet
    completed_fetches: deque[CompletedFetch] = field(default_factory=deque)
    queued_bytes: int = 0
    failure: FetchFailure | None = None
    in_flight: int = 0  # the number of the fetch that is under way; 0: none
    failures: int = 0  # of fetches in a row
    retry_at: float = 0.0
    preferred: int = -1  # the replica that the leader has sent us to
    preferred_until: float = 0.0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1

    @property
    def log_position(self) -> LogPosition | None:
        """The application's."""
        if self.position is None:
            return None
        epoch = self.completed_fetches[0].epoch_before(self.position) if self.completed_fetches else None
        return LogPosition(self.position, self.offset_epoch if epoch is None else epoch)

    @property
    def fetch_position(self) -> LogPosition:
        """Where the next fetch begins: behind what is queued."""
        return LogPosition(
            self.fetch_offset, self.completed_fetches[-1].last_epoch if self.completed_fetches else self.offset_epoch
        )

    @property
    def is_ready(self) -> bool:
        """Whether there is something for the application."""
        return not (self.is_paused or self.is_held) and (bool(self.completed_fetches) or self.failure is not None)

    @property
    def is_fetchable(self) -> bool:
        """Whether a fetch may ask for it now (SubscriptionState.TopicPartitionState.isFetchable)."""
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


class SubscriptionState:
    """`on_change` is called, by whichever thread, when there may be something to fetch or to look up."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.lock = threading.Lock()
        self.on_change = on_change
        self.assignment: dict[TopicPartition, TopicPartitionState] = {}
        # Those with completed fetches or a failure; the first has the next turn.
        self.ready: dict[TopicPartition, TopicPartitionState] = {}
        self.queued_bytes = 0
        self.hand: Hand | None = None  # what an iteration has taken, and has not yielded yet
        self.is_short_of_room = False  # something was not fetched because too much is queued
        self._epochs = itertools.count(1)

    # -- assignment

    def assigned(self) -> frozenset[TopicPartition]:
        """All that is assigned."""
        with self.lock:
            return frozenset(self.assignment)

    def assign(self, added: Iterable[TopicPartition], *, held: bool = False) -> None:
        """These too, from now on. They have no position yet: see `needs_position`. For `held` see `hold`."""
        with self.lock:
            for partition in added:
                if partition not in self.assignment:
                    state = self.assignment[partition] = TopicPartitionState(partition, next(self._epochs))
                    state.is_held = held
        self.on_change()

    def hold(self, held: Iterable[TopicPartition], released: Iterable[TopicPartition]) -> None:
        """Of the first nothing is taken, though it is fetched, until they are among the second."""
        with self.lock:
            for partitions, is_held in ((held, True), (released, False)):
                for partition in partitions:
                    state = self.assignment.get(partition)
                    if state is not None:
                        state.is_held = is_held

    def revoke(self, removed: Iterable[TopicPartition]) -> None:
        """Not these any more, nor what was fetched of them."""
        with self.lock:
            for partition in removed:
                state = self.assignment.pop(partition, None)
                if state is not None:
                    self._clear(state)
                    state.epoch = 0
                if self.hand is not None:
                    self.hand.drop(partition)
        self.on_change()

    # -- positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record that the application gets; None: not known yet."""
        with self.lock:
            return self._position(self._find(partition))

    def positions(self) -> dict[TopicPartition, int]:
        """All that are known."""
        with self.lock:
            return {key: one.position for key, one in self.assignment.items() if one.position is not None}

    def consumed(
        self, partitions: Iterable[TopicPartition] | None = None, *, processed: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of these partitions, or of all, what is known, as it is committed: with the epoch by which the next owner can
        check it. With `processed`, without the record of an iteration that the application is at work on."""
        with self.lock:
            chosen = self.assignment if partitions is None else [one for one in partitions if one in self.assignment]
            found = {key: self.assignment[key].log_position for key in chosen}
            for key, at in ({} if self.hand is None else self.hand.positions(processed=processed)).items():
                taken = found.get(key)
                if taken is not None and at.offset < taken.offset:
                    found[key] = at
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
                for key, one in self.assignment.items()
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
            self._sought(partition)
        self.on_change()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They have no position any more, and nothing that was fetched is taken."""
        with self.lock:
            for partition in partitions:
                self._move(self._find(partition), None)
                self._sought(partition)
        self.on_change()

    def begin(self, lacking: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, LogPosition]) -> None:
        """At a committed offset, or as auto.offset.reset says; not if anything has happened to the partition since it
        had the epoch in `lacking`: others may have had it meanwhile."""
        with self.lock:
            for partition, epoch in lacking.items():
                state = self.assignment.get(partition)
                if state is None or state.epoch != epoch:
                    continue
                if partition in committed:
                    self._move(state, *committed[partition])
                else:
                    self.look_up(state, BY_POLICY)
        self.on_change()

    def request_reset(self, partitions: Iterable[TopicPartition], timestamp: int = BY_POLICY) -> None:
        """Their positions are looked up by timestamp (LATEST, EARLIEST, a time), or as auto.offset.reset says."""
        with self.lock:
            for partition in partitions:
                self.look_up(self._find(partition), timestamp)
                self._sought(partition)
        self.on_change()

    def partitions_needing_reset(self) -> dict[TopicPartition, tuple[int, int]]:
        """Timestamp and epoch of those that are to be looked up now."""
        with self.lock:
            return {
                key: (one.reset, one.epoch)
                for key, one in self.assignment.items()
                if one.reset is not None and one.failure is None
            }

    def reset_to(self, partition: TopicPartition, epoch: int, at: LogPosition) -> None:
        """Takes effect if nothing else has happened to the partition since it had this epoch."""
        with self.lock:
            state = self.assignment.get(partition)
            if state is None or state.epoch != epoch:
                return
            self._move(state, *at)
        self.on_change()

    def reset_later(self, partition: TopicPartition, epoch: int, timestamp: int) -> None:
        """To be looked up by another timestamp."""
        with self.lock:
            state = self.assignment.get(partition)
            if state is not None and state.epoch == epoch:
                state.reset = timestamp

    def fail(self, partition: TopicPartition, epoch: int, failure: FetchFailure) -> None:
        """Tells the application when it comes to this partition. Unless it passes, only a seek goes on from there."""
        with self.lock:
            state = self.assignment.get(partition)
            if state is not None and state.epoch == epoch:
                state.reset = state.reset if failure.passes else None
                state.failure = failure
                self.ready[partition] = state

    def take_failure(self, partition: TopicPartition) -> EquipoiseError | None:
        """What keeps it from having a position, for an application that asks for that. It has heard of it then."""
        with self.lock:
            state = self._find(partition)
            failure = None if state.failure is None else self.told(state)
        if failure is not None and failure.passes:
            self.on_change()
        return None if failure is None else failure.error

    # -- pauses

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing of these is fetched, taken or yielded; what was fetched is kept."""
        paused = frozenset(partitions)
        self._set_paused(paused, True)
        self.give_back(paused)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Ends what `pause` began."""
        self._set_paused(partitions, False)
        self.on_change()

    def paused(self) -> frozenset[TopicPartition]:
        """Those that are paused."""
        with self.lock:
            return frozenset(key for key, one in self.assignment.items() if one.is_paused)

    def _set_paused(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        with self.lock:
            found = [self._find(partition) for partition in partitions]
            for state in found:
                state.is_paused = is_paused

    # -- what an iteration has taken

    def take_hand(self) -> list[ConsumerRecord]:
        """What it has not yielded, for whoever polls instead."""
        hand, self.hand = self.hand, None
        return [] if hand is None else hand.take_rest()

    def give_back(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """What it has not yielded of these, or of all, is taken again. A partition that has gone back before it by
        itself (its log was cut), or was revoked, stays where it is."""
        with self.lock:
            for key, at in ({} if self.hand is None else self.hand.positions()).items():
                state = self.assignment.get(key)
                if self.hand is None or (partitions is not None and key not in partitions):
                    continue
                self.hand.drop(key)
                if state is not None and state.position is not None and state.position > at.offset:
                    self._move(state, *at)
        self.on_change()

    def ready_positions(self) -> dict[TopicPartition, LogPosition]:
        """Of those that have something for the application."""
        with self.lock:
            known = {key: state.log_position for key, state in self.ready.items()}
        return {key: at for key, at in known.items() if at is not None}

    def _sought(self, partition: TopicPartition) -> None:
        if self.hand is not None:
            self.hand.sought(partition)

    def _position(self, state: TopicPartitionState) -> int | None:
        taken = state.position
        if self.hand is None or taken is None:
            return taken
        at = self.hand.positions().get(state.partition)
        return taken if at is None else min(taken, at.offset)

    # -- what the broker says of them

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """As of the last fetch; None: not known yet."""
        with self.lock:
            known = self._find(partition).high_watermark
            return None if known < 0 else known

    def lag(self, partition: TopicPartition, *, committed_only: bool) -> int | None:
        """Records from the position to the end, as of the last fetch; None: not known yet."""
        with self.lock:
            state = self._find(partition)
            end = state.last_stable_offset if committed_only else state.high_watermark
            position = self._position(state)
            return None if end < 0 or position is None else max(0, end - position)

    # -- under the lock, for those who fetch and take

    def takeable_bytes(self) -> int:
        """What is queued and can be taken now. What is paused may lie for ever, and must not stop the others."""
        lying = sum(one.queued_bytes for one in self.assignment.values() if one.is_paused or one.is_held)
        return self.queued_bytes - lying

    def add_completed_fetch(self, state: TopicPartitionState, fetch: CompletedFetch) -> None:
        """Queues what a fetch has brought: the next begins behind it."""
        state.completed_fetches.append(fetch)
        state.fetch_offset = fetch.next_offset
        state.queued_bytes += fetch.size
        self.queued_bytes += fetch.size
        self.ready.setdefault(state.partition, state)

    def pop_completed_fetch(self, state: TopicPartitionState) -> None:
        """The first is read: the position goes behind it."""
        fetch = state.completed_fetches.popleft()
        state.position, state.offset_epoch = fetch.next_offset, fetch.last_epoch
        state.queued_bytes -= fetch.size
        self.queued_bytes -= fetch.size
        if not state.completed_fetches and state.failure is None:
            del self.ready[state.partition]

    def stop_at(self, state: TopicPartitionState, offset: int, error: KafkaError) -> None:
        """Nothing is read from there on, until the application seeks."""
        self._move(state, offset)
        state.failure = FetchFailure(error, passes=False)
        self.ready[state.partition] = state

    def drop_queued(self, state: TopicPartitionState) -> None:
        """What was fetched is fetched again, from the application's position on."""
        at = state.log_position
        assert at is not None
        self._move(state, *at)

    def go_back(self, state: TopicPartitionState, to: LogPosition) -> None:
        """Reading goes on there."""
        self._move(state, *to)

    def look_up(self, state: TopicPartitionState, timestamp: int) -> None:
        """The position is to be looked up by this timestamp."""
        self._move(state, None)
        state.reset = timestamp

    def told(self, state: TopicPartitionState) -> FetchFailure:
        """The failure, now that the application hears of it."""
        failure = state.failure
        assert failure is not None
        if failure.passes:
            state.failure = None
            del self.ready[state.partition]
        return failure

    def _find(self, partition: TopicPartition) -> TopicPartitionState:
        state = self.assignment.get(partition)
        if state is None:
            raise UsageError(
                f"{partition} is not assigned to this consumer; it has {listed(self.assignment) or 'nothing'}"
            )
        return state

    def _move(self, state: TopicPartitionState, offset: int | None, leader_epoch: int = NO_EPOCH) -> None:
        self._clear(state)
        state.epoch = next(self._epochs)
        state.position = offset
        state.fetch_offset = -1 if offset is None else offset
        state.offset_epoch, state.validated_epoch = leader_epoch, NO_EPOCH
        state.reset = state.failure = None
        state.failures, state.retry_at, state.in_flight = 0, 0.0, 0

    def _clear(self, state: TopicPartitionState) -> None:
        self.ready.pop(state.partition, None)
        self.queued_bytes -= state.queued_bytes
        state.completed_fetches.clear()
        state.queued_bytes = 0
