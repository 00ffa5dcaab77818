"""The states of a transactional id, every way from one to another, and what EndTxn does in each.

Theory of operation
-------------------
A transactional id has one producer at a time, and that producer has one transaction at a time. The coordinator keeps
for each id who its producer is (a producer id and an epoch), and which partitions belong to the open transaction. Every
change is one record of `__transaction_state`; the change takes effect when the record is durable. From the decision to
that moment the id has a pending state, and nobody else may change it: others hear CONCURRENT_TRANSACTIONS.

Empty. InitProducerId has named a producer, and there is no transaction. The epoch is one more than before: who came
    earlier is fenced. The id waits for nobody. AddPartitionsToTxn, or the first Produce of a client of transaction
    version 2, ends this state.
Ongoing. The partitions of the transaction are known before records go there, so that no record can be forgotten. The
    partitions hold their last stable offset at its first record. The id waits for EndTxn, for `transaction.timeout.ms`
    since the first partition was added, or for a new producer; the latter two fence and abort.
PrepareCommit, PrepareAbort. The decision is durable. From here on it cannot change, whoever crashes: the outcome is
    told to the client, and a marker goes to each partition. A coordinator that is loaded in this state writes all
    markers again; partitions bear the repetition. The state ends when every marker is durable.
CompleteCommit, CompleteAbort. The transaction is over, its partitions are forgotten, and the id can begin another.
PrepareEpochFence. Never written: the id is Ongoing, and an abort by the coordinator has been decided.
Dead. The id was silent for `transactional.id.expiration.ms`. A tombstone is written, then it is forgotten.

Epochs. With transaction version 0 and 1 an epoch lasts until the next InitProducerId. With version 2 (KIP-890) the
decision itself takes the next epoch, and EndTxn tells it to the producer: a record that is late in the network belongs
to no transaction of today. Epoch 32767 is never given to a producer, so that the last one can still be fenced; then
comes a new producer id with epoch 0.

Crash. Before the decision is durable the transaction is open, and the client or its timeout ends it. After it the
markers are written. There is nothing between: a transaction is committed whole or aborted whole.

Rule T.5: the numbers are those of the records; the names those of DescribeTransactions. Kafka: TransactionState.
"""

from __future__ import annotations

from enum import Enum

from equipoise.wire.transitions import transitions


class State(Enum):
    """Values are the words of DescribeTransactions and ListTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @property
    def number(self) -> int:
        """As records have it."""
        return _NUMBERS[self]


_BY_NUMBER = tuple(State)
_NUMBERS = {state: number for number, state in enumerate(_BY_NUMBER)}


def state_of(number: int) -> State | None:
    """The state of a record; None: a number that no version of Kafka has written."""
    return _BY_NUMBER[number] if 0 <= number < len(_BY_NUMBER) else None


_RESTING = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
AT_REST = frozenset(_RESTING)
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})

# Rule T.6. Kafka: TransactionState.VALID_PREVIOUS_STATES.
TRANSITIONS = transitions(
    {
        State.EMPTY: dict.fromkeys(_RESTING, "InitProducerId"),
        State.ONGOING: {
            **dict.fromkeys(_RESTING, "the first partition is added"),
            State.ONGOING: "another partition is added",
        },
        State.PREPARE_COMMIT: {State.ONGOING: "EndTxn commits"},
        State.PREPARE_EPOCH_FENCE: {State.ONGOING: "the timeout is over, or a new producer comes"},
        State.PREPARE_ABORT: {
            State.ONGOING: "EndTxn aborts",
            State.PREPARE_EPOCH_FENCE: "the coordinator aborts",
            **dict.fromkeys(_RESTING, "EndTxn aborts nothing, in transaction version 2"),
        },
        State.COMPLETE_COMMIT: {State.PREPARE_COMMIT: "every marker is durable"},
        State.COMPLETE_ABORT: {State.PREPARE_ABORT: "every marker is durable"},
        State.DEAD: dict.fromkeys(_RESTING, "the id has expired"),
    }
)


class Verdict(Enum):
    """What EndTxn comes to."""

    PREPARE = "the decision is written"
    REPEATED = "a repeated request: answered as the first"
    BUSY = "CONCURRENT_TRANSACTIONS"
    INVALID = "INVALID_TXN_STATE"
    FENCED = "PRODUCER_FENCED"


_P, _R, _B, _I, _F = Verdict.PREPARE, Verdict.REPEATED, Verdict.BUSY, Verdict.INVALID, Verdict.FENCED

# Rule T.23: (commit, abort), of a client before transaction version 2. Kafka:
# TransactionCoordinator.endTransactionWithTV1.
END_TV1: dict[State, tuple[Verdict, Verdict]] = {
    State.ONGOING: (_P, _P),
    State.COMPLETE_COMMIT: (_R, _I),
    State.COMPLETE_ABORT: (_I, _R),
    State.PREPARE_COMMIT: (_B, _I),
    State.PREPARE_ABORT: (_I, _B),
    State.EMPTY: (_I, _I),
}

# Rules T.24 and T.25: (commit, repeated commit, abort, repeated abort), of transaction version 2. A repeated request
# has the epoch before. Kafka: TransactionCoordinator.endTransaction.
END_TV2: dict[State, tuple[Verdict, Verdict, Verdict, Verdict]] = {
    State.ONGOING: (_P, _F, _P, _F),
    State.EMPTY: (_I, _F, _P, _F),
    State.COMPLETE_COMMIT: (_I, _R, _P, _I),
    State.COMPLETE_ABORT: (_I, _I, _P, _R),
    State.PREPARE_COMMIT: (_F, _B, _F, _I),
    State.PREPARE_ABORT: (_F, _I, _F, _B),
}
