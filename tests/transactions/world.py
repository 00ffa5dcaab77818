"""A shard of transactions with a log in memory, under a virtual clock: what it writes is durable when the test says so,
or at once."""

from __future__ import annotations

from itertools import count
from typing import Any

from equipoise.coordinator.step import Caller, Write
from equipoise.coordinator.transactions.config import EPOCH_BUMP, TransactionConfig
from equipoise.coordinator.transactions.events import TransactionEvent
from equipoise.coordinator.transactions.metadata import TransactionMetadata
from equipoise.coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    EndTxn,
    InitProducerId,
    Request,
    TopicPartition,
)
from equipoise.coordinator.transactions.shard import TransactionShard
from equipoise.coordinator.transactions.states import State
from equipoise.coordinator.transactions.step import Markers, TransactionStep
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_record,
    encode_transaction_key,
    encode_transaction_value,
)

T0: TopicPartition = ("t", 0)
T1: TopicPartition = ("t", 1)
ID = "orders"
MINUTE = 60_000
TV2 = EPOCH_BUMP


class World:
    """`writes` and `markers` wait to be carried out; with `flows` they are carried out at once."""

    def __init__(self, flows: bool = True, now: int = 1_000_000, **settings: Any) -> None:
        self.flows = flows
        self.now = now
        self.config = TransactionConfig(**settings)
        self.producer_ids = count(9)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.writes: list[Write] = []
        self.markers: list[Markers] = []
        self.sent: list[Markers] = []
        self.answers: dict[int, Answer] = {}
        self.admitted: list[int] = []
        self.events: list[TransactionEvent] = []
        self._tokens = count()
        self.shard = self._new_shard()
        self.run(self.shard.activate(self.now))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, lambda: next(self.producer_ids))

    # -- what the shard puts out

    def run(self, step: TransactionStep) -> None:
        self.admitted += [caller.token for caller in step.admitted]
        for caller, answer in step.replies:
            assert caller.token not in self.answers, "answered twice"
            self.answers[caller.token] = answer
        self.writes += step.writes
        self.markers += step.markers
        self.sent += step.markers
        self.events += step.events
        if self.flows:
            self.flow()

    def flow(self) -> None:
        """Everything that is under way is carried out."""
        while self.writes or self.markers:
            if self.writes:
                self.write_next()
            else:
                self.mark_next()

    def write_next(self, error: ErrorCode = ErrorCode.NONE) -> None:
        write = self.writes.pop(0)
        if error is ErrorCode.NONE:
            self.log += [encoded(record) for record in write.records]
        self.run(self.shard.written(write, error, self.now))

    def mark_next(self) -> None:
        sent = self.markers.pop(0)
        self.run(self.shard.markers_written(sent.transactional_id, sent.partitions, self.now))

    # -- what comes in

    def ask(self, request: Request) -> int:
        token = next(self._tokens)
        self.run(self.shard.ask(request, Caller(token, 0), self.now))
        return token

    def answer(self, request: Request) -> Answer:
        """The answer, which must be there."""
        return self.answers[self.ask(request)]

    def init(self, producer_id: int = -1, epoch: int = -1, timeout_ms: int = MINUTE, name: str = ID) -> Answer:
        return self.answer(InitProducerId(name, timeout_ms, producer_id, epoch))

    def add(self, producer_id: int, epoch: int, *partitions: TopicPartition, version: int = 0) -> ErrorCode:
        return self.answer(AddPartitions(ID, producer_id, epoch, frozenset(partitions or {T0}), version)).error_code

    def add_to(self, name: str, producer_id: int, epoch: int) -> None:
        assert self.answer(AddPartitions(name, producer_id, epoch, frozenset({T0}))).error_code == ErrorCode.NONE

    def end_later(self, producer_id: int, epoch: int, commit: bool = True) -> int:
        """The answer comes when the decision is written."""
        return self.ask(EndTxn(ID, producer_id, epoch, commit))

    def end(self, producer_id: int, epoch: int, commit: bool = True, version: int = 0) -> Answer:
        return self.answer(EndTxn(ID, producer_id, epoch, commit, version))

    def advance(self, milliseconds: int) -> None:
        """Time passes, and timers fire when they are due."""
        target = self.now + milliseconds
        while (deadline := self.shard.next_deadline()) is not None and deadline <= target:
            self.now = max(self.now, deadline)
            self.run(self.shard.tick(self.now))
        self.now = target

    def restart(self) -> None:
        """A crash: what is not in the log is gone."""
        self.writes.clear()
        self.markers.clear()
        self.shard = self._new_shard()
        for key, value in self.log:
            record = decode_transaction_record(key, value)
            assert record is not None
            self.shard.apply(record)
        self.run(self.shard.activate(self.now))

    # -- what is there

    @property
    def entry(self) -> TransactionMetadata:
        return self.shard.entries[ID]

    @property
    def state(self) -> State:
        return self.entry.state

    @property
    def producer(self) -> tuple[int, int]:
        return self.entry.fields.producer_id, self.entry.fields.producer_epoch

    def records(self) -> list[TransactionLogValue]:
        decoded = [decode_transaction_record(*pair) for pair in self.log]
        return [one.value for one in decoded if one is not None and isinstance(one.value, TransactionLogValue)]

    def bring(self, state: State, version: int = 0, epoch: int | None = None) -> tuple[int, int]:
        """The id in a state, with what its producer has: of Prepare states the markers are missing."""
        producer_id = self.init().producer_id
        if epoch is not None:
            self.entry.fields = self.entry.fields._replace(producer_epoch=epoch)
        epoch = self.entry.fields.producer_epoch
        if state is State.EMPTY:
            return producer_id, epoch
        assert self.add(producer_id, epoch, version=version) == ErrorCode.NONE
        if state is State.ONGOING:
            return producer_id, epoch
        commit = state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
        self.flows = False
        self.ask(EndTxn(ID, producer_id, epoch, commit, version))
        self.write_next()
        if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            self.flow()
        self.flows = state not in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
        assert self.state is state
        return producer_id, epoch


def encoded(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    assert isinstance(record.key, TransactionLogKey)
    value = record.value
    assert value is None or isinstance(value, TransactionLogValue)
    return encode_transaction_key(record.key), None if value is None else encode_transaction_value(value)
