"""A shard: one partition of `__transaction_state` and its transactional ids. All requests come in here.

Load it record by record, activate it, then give it requests, written records, written markers and ticks, one at a time.
A shard never reads a clock, never waits and never fails: an error is a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from equipoise.coordinator.shard_state import StateIsData, Status, unchanged
from equipoise.coordinator.step import Caller, Write, write_error
from equipoise.coordinator.timers import Timers
from equipoise.coordinator.transactions import end, expiry, init, partitions
from equipoise.coordinator.transactions.config import TransactionConfig
from equipoise.coordinator.transactions.events import EndReason, ProducerFenced
from equipoise.coordinator.transactions.expiry import TimerKind, TransactionTimer
from equipoise.coordinator.transactions.metadata import TransactionMetadata, TxnTransitMetadata, fields_of, record_of
from equipoise.coordinator.transactions.requests import (
    BUSY,
    AddPartitions,
    Answer,
    EndTxn,
    InitProducerId,
    Parked,
    Request,
    TopicPartition,
)
from equipoise.coordinator.transactions.states import PREPARED, State
from equipoise.coordinator.transactions.step import TransactionStep, TransitionWritten
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.transaction_records import TransactionLogKey, TransactionLogValue

MOST_PARKED = 64  # requests that wait for one id; a producer has one at a time


class TransactionShard(StateIsData):
    """`new_producer_id` gives ids that nobody ever had; KafkaError: it cannot. `wall_time` tells the wall time of a
    `now`, since records must mean something after a restart. The rest of the state is data."""

    saved = ("config", "status", "entries", "timers", "parked")

    def __init__(
        self,
        config: TransactionConfig,
        new_producer_id: Callable[[], int],
        wall_time: Callable[[int], WallTime] = unchanged,
    ) -> None:
        self.config = config
        self.status = Status.LOADING
        self.entries: dict[str, TransactionMetadata] = {}
        self.timers: Timers[TransactionTimer] = Timers()
        self.parked: dict[str, list[Parked]] = {}
        self.attach(new_producer_id, wall_time)

    def attach(self, new_producer_id: Callable[[], int], wall_time: Callable[[int], WallTime] = unchanged) -> None:
        """Gives the shard the two functions that are not state."""
        self.new_producer_id = new_producer_id
        self.wall_time = wall_time

    # -- life

    def apply(self, record: CoordinatorRecord) -> None:
        """A durable record takes effect: while loading, and behind every write that has succeeded. Rule T.75."""
        key, value = record
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.entries.pop(key.transactional_id, None)
        elif isinstance(value, TransactionLogValue) and (fields := fields_of(value)) is not None:
            entry = self.entries.get(key.transactional_id)
            if entry is None:
                self.entries[key.transactional_id] = TransactionMetadata(key.transactional_id, fields)
            else:
                entry.fields = fields

    def activate(self, now: int) -> TransactionStep:
        """Loading is over: what was decided is carried out, and open transactions are timed.

        Rule T.75. Kafka: TransactionStateManager.loadTransactionsForTxnTopicPartition.
        """
        self.status = Status.ACTIVE
        step = TransactionStep(now)
        expiry.arm_sweep(self, now)
        for entry in self.entries.values():
            expiry.arm_timeout(self, entry, now)
            if entry.state in PREPARED:
                end.send_markers(entry, step)
                if not entry.fields.partitions:
                    end.complete(self, entry, step)
        return step

    def close(self, now: int) -> TransactionStep:
        """The shard goes elsewhere: all waiting clients are to look for it. Kafka:
        TransactionStateManager.removeTransactionsForTxnTopicPartition."""
        step = TransactionStep(now)
        self.status = Status.CLOSED
        for waiting in self.parked.values():
            for one in waiting:
                step.reply(one.caller, Answer(ErrorCode.NOT_COORDINATOR))
        self.parked.clear()
        self.entries.clear()
        self.timers.clear()
        return step

    @property
    def unavailable(self) -> ErrorCode:
        """The error of a shard that is not active; NONE of one that is."""
        if self.status is Status.ACTIVE:
            return ErrorCode.NONE
        is_loading = self.status is Status.LOADING
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR

    # -- requests

    def ask(self, request: Request, caller: Caller, now: int) -> TransactionStep:
        """A request of a client, or of the broker on behalf of one."""
        step = TransactionStep(now)
        if self.unavailable is not ErrorCode.NONE:
            step.reply(caller, Answer(self.unavailable))
            return step
        answer = self._serve(request, caller, step)
        if answer is not None:
            self.answer(request, caller, answer, step)
        return step

    def _serve(self, request: Request, caller: Caller, step: TransactionStep) -> Answer | None:
        """None: the answer comes when something is written."""
        match request:
            case InitProducerId():
                return init.init_producer_id(self, request, caller, step)
            case AddPartitions():
                return partitions.add_partitions(self, request, caller, step)
            case EndTxn():
                return end.end_txn(self, request, caller, step)

    def verify(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Rule T.23."""
        return partitions.verify_partitions(self, request)

    # -- requests that wait

    def answer(self, request: Request, caller: Caller, answer: Answer, step: TransactionStep) -> None:
        """Answers, or lets the request wait for the id where the answer would be to come again. Rule T.88."""
        waiting = self.parked.get(request.transactional_id, ())
        patience = self._patience(request)
        if answer is not BUSY or not patience or len(waiting) >= MOST_PARKED:
            step.reply(caller, answer)
        else:
            self._park(Parked(request, caller, step.now + patience))

    def _patience(self, request: Request) -> int:
        """Records wait on Kafka too. Rule T.60. Kafka: AddPartitionsToTxnManager."""
        park_ms = self.config.transaction_park_ms
        is_beside = isinstance(request, AddPartitions) and request.is_beside
        return max(park_ms, self.config.add_partitions_to_txn_retry_backoff_max_ms) if is_beside else park_ms

    def _park(self, parked: Parked) -> None:
        transactional_id = parked.request.transactional_id
        waiting = self.parked.setdefault(transactional_id, [])
        waiting.append(parked)
        self.timers.arm(TransactionTimer(TimerKind.PARKED, transactional_id), waiting[0].deadline)

    def _release(self, transactional_id: str, step: TransactionStep) -> None:
        """The id has changed: who waits for it is served again, in order."""
        for parked in self.parked.pop(transactional_id, ()):
            answer = self._serve(parked.request, parked.caller, step)
            if answer is BUSY:
                self._park(parked)
            elif answer is not None:
                step.reply(parked.caller, answer)

    def _on_parked_timer(self, transactional_id: str, step: TransactionStep) -> None:
        waiting = self.parked.pop(transactional_id, [])
        for parked in waiting:
            if parked.deadline <= step.now:
                step.reply(parked.caller, BUSY)
            else:
                self._park(parked)

    # -- writes

    def write(
        self,
        entry: TransactionMetadata,
        fields: TxnTransitMetadata,
        step: TransactionStep,
        *,
        request: Request | None = None,
        caller: Caller | None = None,
        reason: EndReason | None = None,
    ) -> None:
        """Writes a change that `entry.prepare` has made."""
        outcome = TransitionWritten(entry.transactional_id, fields, request, caller, reason)
        step.write([record_of(entry.transactional_id, fields)], outcome)

    def written(self, write: Write, error: ErrorCode, now: int) -> TransactionStep:
        """A write of ours is durable and takes effect, or it has failed. Rules T.4 and T.6. Kafka:
        TransactionStateManager.appendTransactionToLog."""
        step, outcome = TransactionStep(now), write.outcome
        assert isinstance(outcome, TransitionWritten)
        entry = self.entries.get(outcome.transactional_id)
        if self.status is not Status.ACTIVE or entry is None:
            if outcome.caller is not None:
                step.reply(outcome.caller, Answer(ErrorCode.NOT_COORDINATOR))
        elif error is not ErrorCode.NONE:
            self._not_written(entry, outcome, error, step)
        else:
            self._take_effect(entry, write, outcome, step)
        return step

    def _take_effect(
        self, entry: TransactionMetadata, write: Write, outcome: TransitionWritten, step: TransactionStep
    ) -> None:
        entry.pending = None
        for record in write.records:
            self.apply(record)
        entry.fields = entry.fields._replace(last_producer_epoch=outcome.fields.last_producer_epoch)
        expiry.arm_timeout(self, entry, step.now)
        if entry.state in PREPARED:
            end.prepare_written(self, entry, outcome, step)
        elif outcome.caller is not None:
            step.reply(outcome.caller, _told(outcome))
        self._release(outcome.transactional_id, step)

    def _not_written(
        self, entry: TransactionMetadata, outcome: TransitionWritten, error: ErrorCode, step: TransactionStep
    ) -> None:
        """The id is as before, but for what is decided: that is completed a little later. What a timer has begun is
        tried again after its interval. Rules T.28, T.29, T.34, T.37 and T.38."""
        is_completing = entry.state in PREPARED
        if is_completing:
            expiry.arm_completion(self, entry, step.now)
        else:
            is_fence = outcome.reason in (EndReason.TIMED_OUT, EndReason.FENCED)
            entry.has_failed_epoch_fence = entry.has_failed_epoch_fence or is_fence
            entry.pending = None
            expiry.arm_timeout(self, entry, step.now, has_failed_fence=is_fence)
            if outcome.fields.state is State.DEAD:
                expiry.arm_sweep(self, step.now)
        if outcome.caller is not None:
            step.reply(outcome.caller, Answer(write_error(error)))
        if not is_completing:
            self._release(outcome.transactional_id, step)

    def markers_written(
        self, transactional_id: str, partitions: Collection[TopicPartition], now: int
    ) -> TransactionStep:
        """The markers of these partitions are durable, or the partitions are gone. Rule T.32."""
        step = TransactionStep(now)
        entry = self.entries.get(transactional_id)
        if self.status is Status.ACTIVE and entry is not None:
            end.markers_written(self, entry, partitions, step)
        return step

    # -- time

    def next_deadline(self) -> int | None:
        """When to call `tick` next; None: no timer is armed."""
        return self.timers.next_deadline()

    def tick(self, now: int) -> TransactionStep:
        """Every timer that is due fires."""
        step = TransactionStep(now)
        while (key := self.timers.pop_due(now)) is not None:
            match key.kind:
                case TimerKind.TIMEOUT:
                    expiry.on_timeout(self, key.transactional_id, step)
                case TimerKind.PARKED:
                    self._on_parked_timer(key.transactional_id, step)
                case TimerKind.COMPLETION:
                    expiry.on_completion_timer(self, key.transactional_id, step)
                case TimerKind.EXPIRY:
                    expiry.sweep(self, step)
        return step

    # -- what the rules share

    def fenced(self, entry: TransactionMetadata, request: Request, step: TransactionStep) -> Answer:
        """The producer is not the one of today."""
        names = entry.transactional_id, step.now, request.producer_id, request.producer_epoch
        step.note(ProducerFenced(*names, type(request).__name__, entry.fields.producer_epoch))
        return Answer(ErrorCode.PRODUCER_FENCED)


def _told(outcome: TransitionWritten) -> Answer:
    """Of InitProducerId the new producer; of added partitions nothing but success. Rule T.17."""
    if outcome.fields.state is State.EMPTY:
        return Answer(ErrorCode.NONE, outcome.fields.producer_id, outcome.fields.producer_epoch)
    return partitions.DONE
