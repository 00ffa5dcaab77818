"""Produce (0). Versions 0 to 2 are advertised and refused: librdkafka compresses only if the range begins at 0.

The broker answers acks=all and acks=1 when the records are durable, which is when consumers see them: an acknowledged
record can be read, and counts in the end offset. It never answers acks=0. After an error it closes the connection, the
only sign that such a producer can get.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.leader_hints import LeaderHints
from equipoise.broker.handlers.transactions import authorize_id
from equipoise.broker.net.purgatory import Completion, DelayedOperation
from equipoise.broker.topics.validation_queue import QueuedBatch, validation_for
from equipoise.broker.transactions.admission import (
    Admission,
    EveryProducer,
    Producer,
    VerifiedProducer,
    adds_partitions,
    needs_admission,
)
from equipoise.log.batch_validation import BatchValidation, RecordValidationError
from equipoise.log.producer_state import UNVERIFIED, Verification
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader, Codec, validate

if TYPE_CHECKING:
    from equipoise.broker.clock import Clock
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition
    from equipoise.log.partition import LogAppendInfo

NAMES_PARTITIONS = True
NONE = 0
_FIRST_VERSION_WITH_IDS = 13
_ATTRIBUTES = 22  # where the low byte of a batch's attributes is
_PRODUCER = slice(43, 53)  # where its producer id and epoch are
_INLINE_BYTES = 16 << 10  # in one request: at worst a millisecond or two


class ProducePartitionStatus:
    """A partition's answer, made when its batch is appended, and true once the log is durable up to `last_offset`."""

    __slots__ = ("answer", "is_failed", "last_offset", "partition", "settled")

    def __init__(self, partition: Partition, index: int) -> None:
        self.partition = partition
        self.answer = PartitionProduceResponse(
            index=index, error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1, error_message="not yet appended"
        )
        self.last_offset: int | None = None  # None: not appended, and perhaps never
        self.is_failed = False
        self.settled: Callable[[], None] | None = None

    def appended(self, info: LogAppendInfo) -> None:
        """The log has the batch; it is not yet durable."""
        answer = self.answer
        answer.error_code, answer.error_message = ErrorCode.NONE, None
        answer.base_offset = info.base_offset
        answer.log_append_time_ms = info.log_append_time
        answer.log_start_offset = info.log_start_offset
        self.last_offset = info.last_offset
        if self.settled is not None:
            self.partition.when_settled(info.last_offset, self.settled)

    def failed(self, error: KafkaError) -> None:
        """The log has refused the batch, or its transaction has: then it may be in the log, and will be settled.

        If both refuse it, the first has the word, and it is settled once.
        """
        if self.is_failed:
            return
        _fail(self.answer, error)
        self.is_failed = self.last_offset is None
        if self.settled is not None and self.is_failed:
            self.settled()

    @property
    def is_durable(self) -> bool:
        """Whether the answer is true already."""
        return self.is_failed or (self.last_offset is not None and self.partition.is_durable(self.last_offset))

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Calls back when the batch is durable, or never will be."""
        self.settled = callback
        if self.last_offset is not None:
            self.partition.when_settled(self.last_offset, callback)

    def conclude(self) -> None:
        """The records are durable, or the disk failed under them, or the producer's time is up."""
        if self.last_offset is not None and not self.partition.is_durable(self.last_offset):
            offline = self.partition.log.offline
            self.answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.REQUEST_TIMED_OUT
            self.answer.error_message = offline or "not durable within timeout.ms"


def handle(server: Server, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """Appends, and answers when the records are durable (KafkaApis.handleProduceRequest,
    ReplicaManager.appendRecords)."""
    appending = _Appending(server, request, call)
    appending.admit_transactions(request)
    topics = [appending.topic(data) for data in request.topic_data]
    waits: list[ProducePartitionStatus | Admission] = appending.ask()
    response = ProduceResponse(responses=topics)
    if appending.hints is not None:
        response.node_endpoints = appending.hints.endpoints
    if request.acks == NONE:
        _end_unanswered(call, topics, appending.statuses)
        return None
    waiting = [one for one in waits if not one.is_durable]
    if not waiting:
        return response
    DelayedProduce(waiting, response).wait(call, server.clock, request.timeout_ms)
    return None


def _end_unanswered(call: Call, topics: list[TopicProduceResponse], statuses: list[ProducePartitionStatus]) -> None:
    call.no_reply()
    answers = [partition for topic in topics for partition in topic.partition_responses]
    to_come = {id(one.answer): one for one in statuses if one.last_offset is None and not one.is_failed}
    if any(answer.error_code for answer in answers if id(answer) not in to_come):
        call.connection.close()
    for one in to_come.values():
        one.settled = partial(_close_if_failed, call, one)


def _close_if_failed(call: Call, one: ProducePartitionStatus) -> None:
    if one.answer.error_code:
        call.connection.close()


class DelayedProduce:
    """A response that waits for partitions to be durable (DelayedProduce.tryComplete)."""

    __slots__ = ("_operation", "_response", "_to_come", "_waiting")

    def __init__(self, waiting: list[ProducePartitionStatus | Admission], response: ProduceResponse) -> None:
        self._waiting = waiting
        self._response = response
        self._to_come = len(waiting)
        self._operation: DelayedOperation | None = None

    def wait(self, call: Call, clock: Clock, timeout_ms: int) -> None:
        """Until all partitions are durable, or `timeout_ms` is over."""
        self._operation = DelayedOperation(call, clock, timeout_ms, self._on_complete)
        for one in self._waiting:
            one.when_settled(self._try_complete)

    def _try_complete(self) -> None:
        self._to_come -= 1
        if self._to_come == 0 and self._operation is not None:
            self._operation.complete(Completion.SATISFIED)

    def _on_complete(self, reason: Completion) -> ProduceResponse:
        for one in self._waiting:
            one.conclude()
        return self._response


def _fail(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code, answer.base_offset, answer.error_message = error.code, -1, str(error)
    if isinstance(error, RecordValidationError):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.message_of_each)
            for index in error.indexes
        ]


def _is_transactional(data: PartitionProduceData) -> bool:
    """By the attributes of the first batch, which may be broken otherwise (RequestUtils.hasTransactionalRecords)."""
    records = data.records
    return isinstance(records, memoryview) and len(records) > _ATTRIBUTES and bool(records[_ATTRIBUTES] & 0x10)


def _producer_of(data: PartitionProduceData) -> bytes:
    """Producer id and epoch, as they stand in the batch."""
    assert isinstance(data.records, memoryview)
    return bytes(data.records[_PRODUCER])


class _Appending:
    """One request's way through its partitions."""

    def __init__(self, server: Server, request: ProduceRequest, call: Call) -> None:
        self.server = server
        self.call = call
        self.now = server.clock.wall_time()
        self.acks = request.acks
        self.transactional_id = request.transactional_id
        self.admission: Admission | None = None  # of the partitions that the transaction does not have yet
        self.statuses: list[ProducePartitionStatus] = []
        self.inline = 0  # bytes of records looked into on the loop
        self.denied: KafkaError | None = None  # for every partition
        self.by_id = call.version >= _FIRST_VERSION_WITH_IDS
        self.hints: LeaderHints | None = None  # for who has asked the wrong broker

    def admit_transactions(self, request: ProduceRequest) -> None:
        """Transactional batches need the transactional id, before any topic is looked at, and one producer.

        Rule T.41. Kafka: KafkaApis.handleProduceRequest, ReplicaManager.handleProduceAppend.
        """
        batches = [data for topic in request.topic_data for data in topic.partition_data if _is_transactional(data)]
        if not batches:
            return
        try:
            if request.transactional_id is None:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional id is needed")
            authorize_id(self.server, self.call, AclOperation.WRITE, request.transactional_id)
            if len({_producer_of(data) for data in batches}) > 1:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction has one producer id and epoch")
        except KafkaError as error:
            self.denied = error

    def topic(self, data: TopicProduceData) -> TopicProduceResponse:
        answers = [self.partition(data, partition) for partition in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)

    def partition(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            return self.append(self.find(topic, data.index), data)
        except KafkaError as error:
            answer = PartitionProduceResponse(index=data.index, error_code=error.code, base_offset=-1)
            _fail(answer, error)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self.hints = self.hints or LeaderHints(self.server, self.call)
                answer.current_leader = self.hints.leader_of(topic.topic_id if self.by_id else topic.name, data.index)
            return answer

    def find(self, topic: TopicProduceData, index: int) -> Partition:
        if self.denied is not None:
            raise self.denied
        key = topic.topic_id if self.by_id else topic.name
        partition = self.server.find_led(self.call, AclOperation.WRITE, key, index)
        if self.acks not in (-1, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {self.acks}; it must be -1 (all), 0 or 1")
        # Kafka makes an exception for the client id `__admin_client`, which any client can use.
        if partition.topic.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic.name} is written by the broker alone"
            )
        return partition

    def append(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        records = data.records
        if not isinstance(records, memoryview) or not len(records):
            raise KafkaError(ErrorCode.INVALID_RECORD, "a Produce request must carry a record batch")
        header = validate(records, 0, len(records))
        self.check(partition, header, len(records))
        status = ProducePartitionStatus(partition, data.index)
        append = partial(self.append_batch, records, header, status)
        if header.is_transactional:
            self.server.transaction_coordinator.check_swept(partition, header.producer_id)
        if needs_admission(partition, header):
            self.begin_transaction(header, status, append)
        else:
            append(UNVERIFIED)
        self.statuses.append(status)
        return status.answer

    def begin_transaction(
        self, header: BatchHeader, status: ProducePartitionStatus, append: Callable[[Verification], None]
    ) -> None:
        """The first records of a transaction in a partition: the coordinator must know. Rules T.59 and T.60."""
        server, version, partition = self.server, self.call.version, status.partition
        producer = Producer(self.transactional_id or "", header.producer_id, header.producer_epoch)
        if adds_partitions(version):
            if self.admission is None:
                self.admission = Admission(server, producer, version)
            self.admission.add(partition, append, status.failed)
        elif not server.config.transaction_partition_verification_enable:
            append(Verification(EveryProducer()))
        else:
            verified = VerifiedProducer(server, producer, (partition.topic.name, partition.index), version)
            verified.check()
            append(Verification(verified))

    def ask(self) -> list[ProducePartitionStatus | Admission]:
        """The coordinator is asked once for all partitions. Returns what the response waits for."""
        if self.admission is None:
            return [*self.statuses]
        self.admission.ask()
        return [*self.statuses, self.admission]

    def append_batch(
        self, records: memoryview, header: BatchHeader, status: ProducePartitionStatus, verification: Verification
    ) -> None:
        partition = status.partition
        validation = validation_for(partition, header)
        can_append = validation is None or self.is_light(validation, header)
        if can_append and not self.server.validation_queue.is_busy(partition):
            status.appended(self.server.append(partition, records, [(0, header)], self.now, verification=verification))
        else:
            batch = QueuedBatch(validation, records, header, self.call.connection, status, verification)
            self.server.validation_queue.add(partition, batch)

    def is_light(self, validation: BatchValidation, header: BatchHeader) -> bool:
        """A few keys are looked at in less time than another thread is asked: the log does it as it appends."""
        if validation.codec is not None or header.codec is not Codec.NONE:
            return False
        self.inline += header.size
        return self.inline <= _INLINE_BYTES

    def check(self, partition: Partition, header: BatchHeader, size: int) -> None:
        if header.size != size:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a Produce request must carry exactly one batch per partition")
        if header.is_control:
            raise KafkaError(ErrorCode.INVALID_RECORD, "control batches are written by brokers alone")
        partition.topic.check_batch(header, self.now)
