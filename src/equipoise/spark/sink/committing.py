"""The driver's end of the exactly-once sink: decides on a micro-batch, then commits the transactions of its tasks.

Spark calls it in a fresh process for each batch, and calls abort() also after a commit() that has failed. Nothing is
therefore kept in memory: the decision in Kafka says how far a batch is, and the state of each transaction what is left
to do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from equipoise.client.producer.producer import Producer
from equipoise.client.transactions.coordinators import Coordinators
from equipoise.client.transactions.errors import LostTransactionError, TransactionAbortableError
from equipoise.client.transactions.others import (
    COMMITTED,
    ONGOING,
    DescribedState,
    ProducerEpoch,
    describe,
    end,
    fence,
    ongoing,
)
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition, listed
from equipoise.spark.sink.batch_offsets import BatchOffsets, batch_offsets
from equipoise.spark.sink.decision import Decision
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.sink.prepared import Prepared, older_checkpoint, read_decision
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

log = logging.getLogger(__name__)

_DRIVER = "driver"
_DRIVER_TIMEOUT_MS = 60_000  # of the decision: milliseconds of work. Less if the tasks have less: brokers bound it.
_REBALANCE_PAUSE_S = 0.1
# The member has another place in its group than the source has told: it is in a rebalance, or out.
_REBALANCED = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
}
Epochs = dict[str, ProducerEpoch]
WrittenDecision = dict[str, dict[TopicPartition, OffsetAndMetadata]]  # as offsets, by the name of the sink


def commit(options: SinkOptions, messages: Sequence[Prepared], batch: int) -> None:
    """Returns when all rows of the batch count. Raises before the decision, and nothing counts; or after it, and the
    repeated batch finishes the work."""
    name = messages[0].name
    with _driver(options, name) as driver:
        decision = read_decision(driver, options, name)
        if decision is not None and decision.batch > batch:
            raise older_checkpoint(name, batch, decision)
        epochs = {one.transactional_id: one.epoch for one in messages if one.epoch is not None}
        if decision is None or decision.batch < batch:
            check_prepared(driver, epochs, messages)
            if not decide(driver, options, name, _decision(batch, messages)):
                abort_prepared(driver, messages)
                return
        with _rewriting(driver, options, name, batch):
            if decision is not None and decision.batch == batch:
                log.warning("batch %d was decided before the query ended: its transactions are committed now", batch)
                epochs = find_left(driver, name, decision)
            finish(driver, epochs, batch)
        fence_leftovers(driver, name)


def abort(options: SinkOptions, messages: Sequence[Prepared], batch: int) -> None:
    """Aborts what the tasks have prepared, unless the batch is decided: then the repeated batch finishes it."""
    with _driver(options, messages[0].name) as driver:
        decision = read_decision(driver, options, messages[0].name)
        if decision is not None and decision.batch >= batch:
            log.warning("batch %d is decided, and is finished when the query runs again: nothing is aborted", batch)
            return
        abort_prepared(driver, messages)
        fence_leftovers(driver, messages[0].name)


def commit_write(options: SinkOptions, name: str, messages: Sequence[Prepared]) -> None:
    """Of a batch query, which nobody repeats: there is no decision, and no later batch to end what is left open."""
    with _driver(options, name) as driver:
        epochs = {one.transactional_id: one.epoch for one in messages if one.epoch is not None}
        check_prepared(driver, epochs, messages)
        finish(driver, epochs, None)
        fence_leftovers(driver, name)


def abort_write(options: SinkOptions, name: str, messages: Sequence[Prepared]) -> None:
    """Of a batch query, also if none of its tasks came to an end."""
    with _driver(options, name) as driver:
        abort_prepared(driver, messages)
        fence_leftovers(driver, name)


@contextmanager
def _driver(options: SinkOptions, name: str) -> Iterator[Producer]:
    """Claims the driver's id: an earlier process of this query can decide nothing any more, and what it was deciding is
    decided or aborted."""
    timeout_ms = min(_DRIVER_TIMEOUT_MS, options.producer.transaction_timeout_ms)
    config = replace(
        options.producer, transactional_id=f"{name}-{_DRIVER}", transaction_timeout_ms=timeout_ms, linger_ms=0
    )
    producer = Producer(config)
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.abandon()


# -- the steps of a commit, in their order


def check_prepared(driver: Producer, epochs: Epochs, messages: Sequence[Prepared]) -> None:
    """KafkaError: a transaction was ended by its time-out, or by another query with the same names. Nothing is decided
    yet."""
    states = driver.ask_coordinators(lambda coordinators: describe(coordinators, epochs))
    lost = {one: state for one, state in states.items() if state != DescribedState(ONGOING, epochs[one])}
    if lost:
        raise LostTransactionError(
            ErrorCode.INVALID_TXN_STATE,
            f"of the transactions of {len(messages)} tasks {_told(lost)} ended before the batch was complete: it took "
            "longer than kafka.transaction.timeout.ms, or another query writes under the same kafka.transactional.id. "
            "Nothing of the batch counts, and it can be repeated: start the query again",
        )


def decide(driver: Producer, options: SinkOptions, name: str, decision: Decision) -> bool:
    """From here on the batch counts; with it the offsets of the group that the option group.id names. False: it does
    not, because other members read its partitions by now, all of them."""
    deadline = time.monotonic() + options.producer.max_block_ms / 1000
    while True:
        offsets = batch_offsets(options, decision.batch)
        if offsets is not None and offsets.are_lost:
            log.warning("other members read what batch %d has read: nothing of it counts", decision.batch)
            return False
        if offsets is not None and offsets.lost:
            raise _lost_partitions(decision.batch, offsets)
        try:
            _write(driver, {name: {options.anchor: decision.commit()}}, offsets)
        except TransactionAbortableError as error:
            driver.abort_transaction()
            if error.code not in _REBALANCED or time.monotonic() > deadline:
                raise
            time.sleep(_REBALANCE_PAUSE_S)  # the source hears of its new generation, or of its loss
        else:
            return True


def _write(driver: Producer, decision: WrittenDecision, offsets: BatchOffsets | None = None) -> None:
    driver.begin_transaction()
    for name, commits in decision.items():
        driver.send_offsets(commits, name)
    if offsets is not None and offsets.offsets:
        driver.send_offsets(offsets.offsets, offsets.group)
    driver.commit_transaction()


def find_left(driver: Producer, name: str, decision: Decision) -> Epochs:
    """What is left to commit of a batch that was decided in an earlier run. KafkaError: a transaction is lost."""
    names = [task.transactional_id(name) for task in decision.tasks]
    states = driver.ask_coordinators(lambda coordinators: describe(coordinators, names))
    lost = {one: state for one, state in states.items() if state.state not in (ONGOING, *COMMITTED)}
    if lost:
        raise _lost_after_decision(decision.batch, _told(lost))
    return {one: state.epoch for one, state in states.items() if state.state == ONGOING}


def finish(driver: Producer, epochs: Epochs, batch: int | None) -> None:
    """Commits the transactions of the tasks, side by side."""

    async def work(coordinators: Coordinators) -> list[KafkaError | None]:
        ending = (end(coordinators, one, epoch, committed=True) for one, epoch in epochs.items())
        return await asyncio.gather(*ending)

    errors = dict(zip(epochs, driver.ask_coordinators(work), strict=True))
    lost = {one: error for one, error in errors.items() if error is not None}
    if lost:
        told = "; ".join(f"{one}: {error}" for one, error in lost.items())
        raise _lost_after_decision(batch, f"{told}; {len(epochs) - len(lost)} others are committed")


def fence_leftovers(driver: Producer, name: str) -> None:
    """Open transactions that nobody will commit, of tasks that were killed or ran twice: they hold up readers until
    they end. What cannot be fenced ends by its time-out."""

    timeout_ms = driver.config.transaction_timeout_ms

    async def work(coordinators: Coordinators) -> None:
        left = {one for one in await ongoing(coordinators, f"{name}-") if one != f"{name}-{_DRIVER}"}
        await asyncio.gather(*(fence(coordinators, one, timeout_ms) for one in left))

    try:
        driver.ask_coordinators(work)
    except EquipoiseError as error:
        log.warning("open transactions of %s could not be looked for, and end by their time-out: %s", name, error)


@contextmanager
def _rewriting(driver: Producer, options: SinkOptions, name: str, batch: int) -> Iterator[None]:
    """With on.lost.transaction=rewrite a batch that has lost a transaction is undecided again: the next start writes
    all of it, also what was committed."""
    try:
        yield
    except LostTransactionError as error:
        if not options.rewrites_lost:
            raise
        _write(driver, {name: {options.anchor: Decision(batch, ()).undo()}})
        raise LostTransactionError(
            error.code,
            f"{error}. By on.lost.transaction=rewrite the next start writes the whole batch again: start the query. "
            "Rows of its other transactions, which are committed, are there twice then",
        ) from None


def abort_prepared(driver: Producer, messages: Sequence[Prepared]) -> None:
    """As far as they can be reached; others end by their time-out."""

    async def work(coordinators: Coordinators) -> None:
        ending = (
            end(coordinators, one.transactional_id, one.epoch, committed=False)
            for one in messages
            if one.epoch is not None
        )
        await asyncio.gather(*ending)

    with suppress(EquipoiseError):
        driver.ask_coordinators(work)


def _decision(batch: int, messages: Sequence[Prepared]) -> Decision:
    return Decision(batch, tuple(sorted(one.attempt for one in messages if one.epoch is not None)))


def _lost_partitions(batch: int, offsets: BatchOffsets) -> KafkaError:
    """Rows of partitions that it has and has not are in the same transactions."""
    return KafkaError(
        ErrorCode.ILLEGAL_GENERATION,
        f"other members of group {offsets.group.group_id} read {listed(offsets.lost)} by now, which batch {batch} has "
        "read too. Nothing of the batch counts. Start the query again: it reads what is still its own",
    )


def _told(states: dict[str, DescribedState]) -> str:
    return ", ".join(f"{one} ({state.state or 'unknown'})" for one, state in sorted(states.items()))


def _lost_after_decision(batch: int | None, told: str) -> LostTransactionError:
    what = "the write" if batch is None else f"batch {batch}"
    return LostTransactionError(
        ErrorCode.INVALID_TXN_STATE,
        f"{what} was decided, and transactions of it ended before they could be committed: {told}. Their rows are "
        "lost: the query was away for longer than kafka.transaction.timeout.ms, or somebody aborted them. Raise the "
        "time-out, and write the rows of this batch again by hand; docs/spark.md says how to go on",
    )
