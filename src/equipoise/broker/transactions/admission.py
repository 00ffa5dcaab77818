"""Who may append transactional records: the coordinator is asked before the first ones of a transaction reach a
partition (KIP-890).

A client of transaction version 2 (Produce v12) has its partitions added by that: its records are appended in the turn
of the decision, and are answered when they and the coordinator's record are durable. An older client must have added
them. A partition where the transaction is open already needs no question. Rules T.59 to T.64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.transactions.config import EPOCH_BUMP
from equipoise.coordinator.transactions.requests import AddPartitions, Answer, TopicPartition
from equipoise.log.producer_state import Verification
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.wire.records.batch import BatchHeader

_FIRST_THAT_ADDS = 12  # of Produce
_FIRST_WITH_ABORTABLE = 11
_UNAVAILABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class Producer(NamedTuple):
    """Who sends the records of a request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class VerifiedProducer:
    """The producers whose transaction has a partition. The coordinator is asked before the log looks for a repeated
    batch, and by the log again when the batch is appended, which may be later. Rules T.23 and T.62."""

    def __init__(self, server: Server, producer: Producer, partition: TopicPartition, version: int) -> None:
        self._server = server
        self._producer = producer
        self._partition = partition
        self._version = version

    def check(self) -> None:
        """Raises KafkaError with the code that an older producer understands. Rule T.59. Kafka:
        ReplicaManager.maybeSendPartitionsToTransactionCoordinator."""
        asked = AddPartitions(*self._producer, frozenset({self._partition}))
        error = self._server.transaction_coordinator.verify(asked)[self._partition]
        if error is not ErrorCode.NONE:
            raise KafkaError(told(error, self._version), "the partition is not part of an ongoing transaction")

    def __contains__(self, pair: object) -> bool:
        self.check()
        return pair == self._producer[1:]


class EveryProducer:
    """Nobody is verified (`transaction.partition.verification.enable`)."""

    def __contains__(self, pair: object) -> bool:
        return True


def told(error: ErrorCode, version: int) -> ErrorCode:
    """An error of the coordinator as a producer knows it. Rule T.59. Kafka: ReplicaManager.appendRecords."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= _FIRST_THAT_ADDS:
        return error
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _UNAVAILABLE else error


class Admission:
    """The partitions of one request that are to be added to its transaction, with one record for all. Rule T.64.

    It stands among the partitions that the response waits for: when it is settled, the transaction has them.
    """

    def __init__(self, server: Server, producer: Producer, version: int) -> None:
        self._server = server
        self._producer = producer
        self._version = version
        self._appends: dict[TopicPartition, tuple[Callable[[Verification], None], Callable[[KafkaError], None]]] = {}
        self._partitions: list[Partition] = []
        self._settled: Callable[[], None] | None = None
        self._answer: Answer | None = None
        self._is_admitted = False

    def add(
        self, partition: Partition, append: Callable[[Verification], None], failed: Callable[[KafkaError], None]
    ) -> None:
        """`append` is called when the records may go there, or `failed`."""
        self._appends[partition.topic.name, partition.index] = append, failed
        self._partitions.append(partition)

    def ask(self) -> None:
        """Asks the coordinator for all of them."""
        asked = AddPartitions(*self._producer, frozenset(self._appends), EPOCH_BUMP, is_beside=True)
        self._server.transaction_coordinator.ask(asked, self, self._version)

    def admitted(self) -> None:
        """The coordinator's record is on its way: the records go with it. Rule T.63."""
        self._is_admitted = True
        for append, failed in self._appends.values():
            try:
                append(Verification(self, EPOCH_BUMP))
            except KafkaError as error:
                failed(error)

    def __contains__(self, pair: object) -> bool:
        """The log asks when it appends. A batch that waits for the validation thread is appended later than the others,
        and not at all behind a refusal, which could not take it back. Rules T.62 and T.63."""
        is_refused = self._answer is not None and self._answer.error_code is not ErrorCode.NONE
        return not is_refused and pair == self._producer[1:]

    def reply(self, answer: Answer) -> None:
        """The coordinator's record is durable, or it has failed, or there is none."""
        self._answer = answer
        if answer.error_code is not ErrorCode.NONE:
            error = KafkaError(told(answer.error_code, self._version), "the transaction does not take the partition")
            if self._is_admitted:
                self._take_back()
            for _, failed in self._appends.values():
                failed(error)
        if self._settled is not None:
            self._settled()

    def _take_back(self) -> None:
        """No coordinator knows of the records, and they may not be taken for stored if they come again. Rule T.63."""
        _, producer_id, epoch = self._producer
        for partition in self._partitions:
            self._server.transaction_coordinator.unknown.abort(partition, producer_id, epoch)

    # -- as one of those that a response waits for

    @property
    def is_durable(self) -> bool:
        """Whether nothing is to come."""
        return self._answer is not None

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Calls back when the transaction has the partitions, or will not have them."""
        if self._answer is not None:
            callback()
        else:
            self._settled = callback

    def conclude(self) -> None:
        """The producer's time is up, or all is done."""
        if self._answer is None:
            for _, failed in self._appends.values():
                failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "not durable within timeout.ms"))


def needs_admission(partition: Partition, header: BatchHeader) -> bool:
    """Whether the log does not know the transaction yet. Without a producer id there is none, whatever the batch says
    of itself. Kafka: UnifiedLog.hasOngoingTransaction."""
    if not header.is_transactional or header.producer_id < 0:
        return False
    return not partition.log.producers.is_open(header.producer_id, header.producer_epoch)


def adds_partitions(version: int) -> bool:
    """Whether a Produce of this version adds its partitions by itself. Rule T.60. Kafka:
    ProduceRequest.isTransactionV2Requested."""
    return version >= _FIRST_THAT_ADDS
