"""A producer's transactions as a state machine without sockets, clocks or threads: what may be called, what must be
sent, and what an error means for all that follows.

The manager sends the requests and reports their answers. In Kafka: TransactionManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from equipoise.client.transactions.errors import (
    TransactionAbortableError,
    TransactionFatalError,
    abortable,
    fatal,
    fenced,
)
from equipoise.client.transactions.states import TRANSITIONS, TransactionState
from equipoise.client.transactions.verdicts import FENCED, PRODUCE_FATAL
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError, ErrorCode, IllegalTransition, KafkaError, UsageError

NO_PRODUCER = -1
IMPLICIT = 2  # the version of transactions in which brokers add partitions by themselves (KIP-890)
_S = TransactionState
_OPEN = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)


class Transaction:
    """The transactions of one transactional id, one after the other."""

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.state = _S.UNINITIALIZED
        self.version = 0  # of transactions, as the cluster has agreed on (KIP-584); 0 and 1 are alike for a client
        self.producer_id = NO_PRODUCER
        self.producer_epoch = NO_PRODUCER
        self.error: KafkaError | None = None  # why it cannot commit, or cannot go on
        self.needs_bump = False  # sequence numbers have a gap: the next transaction needs a new epoch
        self._takes_no_more = False  # the commit waits until what was sent is stored
        self._added: set[TopicPartition] = set()
        self._groups: set[str] = set()  # of which the coordinator knows
        self._asked_groups: set[str] = set()  # of which it may know: AddOffsetsToTxn is not answered

    def _move(self, target: TransactionState) -> None:
        if (self.state, target) not in TRANSITIONS:
            raise IllegalTransition(f"transactional.id {self.transactional_id}", self.state, target)
        self.state = target

    # -- the id

    def init_begins(self) -> None:
        """The id is claimed. Again after an error, with the epoch that it has (KIP-360)."""
        self._check_alive()
        if self.state is not _S.INITIALIZING:  # else an earlier attempt was not answered in time
            self._move(_S.INITIALIZING)

    def initialized(self, producer_id: int, producer_epoch: int, version: int) -> None:
        """InitProducerId is answered: whoever had the id before is fenced."""
        self._move(_S.READY)
        self.version = version
        self._renew(producer_id, producer_epoch)

    def _renew(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.error, self.needs_bump = None, False
        self._added.clear()
        self._groups.clear()
        self._asked_groups.clear()

    # -- what the application does

    def begin(self) -> None:
        """UsageError: the transaction before has not ended."""
        self._check_alive()
        if self.state is not _S.READY:
            raise UsageError(f"a transaction cannot begin: {_why_not_ready(self.state)}")
        self._move(_S.IN_TRANSACTION)

    def check_send(self) -> None:
        """Raises unless records and offsets may be sent (rule P1.2)."""
        if self.state is not _S.IN_TRANSACTION:
            self._check_alive()
            self._check_committable()
            raise UsageError(
                "this producer has a transactional.id, and no transaction is open: begin_transaction(), or send inside "
                "`with producer.transaction():`"
            )
        if self._takes_no_more:
            raise UsageError("the transaction is being committed: send before commit_transaction(), or in the next one")

    @contextmanager
    def taking_no_more(self) -> Iterator[None]:
        """Until a commit begins, or fails in waiting. A record that is sent meanwhile would go out behind it, in no
        transaction at all (TransactionManager.beginCommit)."""
        self._takes_no_more = True
        try:
            yield
        finally:
            self._takes_no_more = False

    def commit_begins(self) -> None:
        """All records are stored, or the error of one is raised. Again after a commit that was not answered in time."""
        self._check_alive()
        if self.state is _S.COMMITTING_TRANSACTION:
            return
        self._check_committable()
        if self.state is not _S.IN_TRANSACTION:
            raise UsageError("there is no transaction to commit: begin_transaction() first")
        self._move(_S.COMMITTING_TRANSACTION)

    def abort_begins(self) -> None:
        """UsageError: there is none, or its commit is under way (rule P1.3)."""
        self._check_alive()
        if self.state is _S.ABORTING_TRANSACTION:
            return
        if self.state is _S.COMMITTING_TRANSACTION:
            raise UsageError(
                "the transaction cannot be aborted: its commit is under way, and may have taken effect. Call "
                "commit_transaction() again, which finishes it"
            )
        if self.state not in _OPEN:
            raise UsageError("there is no transaction to abort: begin_transaction() first")
        self._move(_S.ABORTING_TRANSACTION)

    def _check_alive(self) -> None:
        if self.state is _S.FATAL_ERROR:
            assert self.error is not None
            raise self.error

    def _check_committable(self) -> None:
        if self.state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise self.error

    # -- what belongs to it

    @property
    def is_implicit(self) -> bool:
        """Whether brokers add partitions and groups by themselves (KIP-890)."""
        return self.version >= IMPLICIT

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun, and no call has begun to end it."""
        return self.state in _OPEN

    @property
    def must_end(self) -> bool:
        """Whether the coordinator knows of the transaction, or may (rule P1.4): EndTxn of nothing is an error in
        version 1 (TransactionManager.beginCompletingTransaction)."""
        return bool(self._added or self._groups or self._asked_groups)

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Whether a batch may go to the partition. In version 1 it must have been added before (rule P2.1)."""
        if self.is_implicit:
            self._added.add(partition)
        return partition in self._added

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """AddPartitionsToTxn is answered, or may have reached the coordinator."""
        self._added.update(partitions)

    def has_group(self, group_id: str) -> bool:
        """Whether the coordinator is known to have the group. Without its answer it must be asked again: it marks only
        partitions of groups that it has."""
        return group_id in self._groups

    def ask_group(self, group_id: str) -> None:
        """From now on the coordinator may have the group."""
        self._asked_groups.add(group_id)

    def add_group(self, group_id: str) -> None:
        """The coordinator has the group. In version 2 it learns of it with the offsets."""
        self._asked_groups.discard(group_id)
        self._groups.add(group_id)

    def drop_group(self, group_id: str) -> None:
        """The coordinator refuses the group, and does not have it."""
        self._asked_groups.discard(group_id)

    @property
    def asked_groups(self) -> list[str]:
        """Groups that the coordinator may have: AddOffsetsToTxn was not answered in time. They are added before the
        end (rule P2.5)."""
        return sorted(self._asked_groups)

    # -- what became of it

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """EndTxn is answered. Version 2 tells the epoch of the next transaction (rule P2.2); else the same goes on."""
        needs_bump = self.needs_bump and not self.is_implicit
        if self.is_implicit and producer_id != NO_PRODUCER:
            self._renew(producer_id, producer_epoch)
        else:
            self._renew(self.producer_id, self.producer_epoch)
        self.needs_bump = needs_bump
        self._move(_S.INITIALIZING if needs_bump else _S.READY)

    def fail(self, code: ErrorCode, what: str) -> TransactionFatalError:
        """The coordinator refuses for good."""
        error = fenced(code, self.transactional_id, self.timeout_ms) if code in FENCED else fatal(code, what)
        if self.state is not _S.FATAL_ERROR:
            self._move(_S.FATAL_ERROR)
            self.error = error
        return error

    def refuse(self, code: ErrorCode, what: str) -> TransactionAbortableError:
        """A part of the transaction was refused: it can be aborted, and no more."""
        error = abortable(code, what)
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING_TRANSACTION):
            self._move(_S.ABORTABLE_ERROR)
            self.error = error
        return error

    def lose_batch(self, error: EquipoiseError, *, is_numbered: bool) -> None:
        """A batch is given up (rule P3.2, Sender.failBatch). If it had a number, those behind it have a gap before them
        (rule P2.4)."""
        self.needs_bump = self.needs_bump or is_numbered
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code in PRODUCE_FATAL:
            self.fail(code, str(error))
        else:
            self.refuse(code, str(error))


def _why_not_ready(state: TransactionState) -> str:
    if state is _S.COMMITTING_TRANSACTION:
        return "the commit of the one before was not answered; call commit_transaction() again, which finishes it"
    if state is _S.ABORTING_TRANSACTION:
        return "the abort of the one before was not answered; call abort_transaction() again, which finishes it"
    return "one is open; commit_transaction() or abort_transaction() first"
