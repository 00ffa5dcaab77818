"""Produce (0). Versions 0 to 2 are advertised and refused: librdkafka compresses only if the range begins at 0.

acks=all is answered when the records are durable, acks=1 when they are written, acks=0 never: after an error
the connection is closed, the only sign such a producer can get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Operation
from equipoise.broker.parking import Parked, Release
from equipoise.wire.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader, validate

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics import Partition

VERSIONS = "3-13"
ADVERTISED = "0-13"
ALL, NONE = -1, 0
_FIRST_VERSION_WITH_IDS = 13
_ADMIN_CLIENT = "__admin_client"  # the one client that Kafka lets write to its internal topics


class Unacknowledged:
    """A partition's answer that is true once the log is durable up to `last_offset`."""

    __slots__ = ("answer", "last_offset", "partition")

    def __init__(self, partition: Partition, last_offset: int, answer: PartitionProduceResponse) -> None:
        self.partition = partition
        self.last_offset = last_offset
        self.answer = answer

    def conclude(self) -> None:
        """The records are durable, or the disk failed under them, or the producer's time is up."""
        if not self.partition.is_durable(self.last_offset):
            offline = self.partition.log.offline
            self.answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.REQUEST_TIMED_OUT
            self.answer.error_message = offline or "not durable within timeout.ms"


def handle(server: Server, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    appending = _Appending(server, request, call)
    topics = [appending.topic(data) for data in request.topic_data]
    response = ProduceResponse(responses=topics)
    if request.acks == NONE:
        _end_unanswered(call, topics)
        return None
    waiting = [one for one in appending.unacknowledged if not one.partition.is_durable(one.last_offset)]
    if request.acks != ALL or not waiting:
        return response
    _park(server, call, request.timeout_ms, waiting, response)
    return None


def _end_unanswered(call: Call, topics: list[TopicProduceResponse]) -> None:
    call.no_reply()
    if any(partition.error_code for topic in topics for partition in topic.partition_responses):
        call.connection.close()


def _park(server: Server, call: Call, timeout: int, waiting: list[Unacknowledged], response: ProduceResponse) -> None:
    unsettled = len(waiting)

    def settled() -> None:
        nonlocal unsettled
        unsettled -= 1
        if unsettled == 0:
            parked.release(Release.READY)

    def answer(reason: Release) -> ProduceResponse:
        for one in waiting:
            one.conclude()
        return response

    parked = Parked(call, server.clock, timeout, answer)
    for one in waiting:
        one.partition.when_settled(one.last_offset, settled)


class _Appending:
    """One request's way through its partitions."""

    def __init__(self, server: Server, request: ProduceRequest, call: Call) -> None:
        self.server = server
        self.call = call
        self.now = server.clock.wall_time()
        self.acks = request.acks
        self.transactional = request.transactional_id is not None
        self.unacknowledged: list[Unacknowledged] = []

    def topic(self, data: TopicProduceData) -> TopicProduceResponse:
        answers = [self.partition(data, partition) for partition in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=answers)

    def partition(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            return self.append(self.find(topic, data.index), data)
        except KafkaError as error:
            return PartitionProduceResponse(
                index=data.index, error_code=error.code, base_offset=-1, error_message=str(error)
            )

    def find(self, topic: TopicProduceData, index: int) -> Partition:
        if self.acks not in (-1, 0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {self.acks}; it must be -1 (all), 0 or 1")
        by_id = self.call.version >= _FIRST_VERSION_WITH_IDS
        key = topic.topic_id if by_id else topic.name
        partition = self.server.find_partition(self.call, Operation.WRITE, key, index)
        if partition.topic.is_internal and self.call.client_id != _ADMIN_CLIENT:
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
        appended = self.server.append(partition, records, [(0, header)], self.now)
        answer = PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time,
            log_start_offset=partition.log.log_start_offset,
        )
        self.unacknowledged.append(Unacknowledged(partition, appended.last_offset, answer))
        return answer

    def check(self, partition: Partition, header: BatchHeader, size: int) -> None:
        if header.size != size:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a Produce request must carry exactly one batch per partition")
        if header.is_control or header.is_transactional or self.transactional:
            raise KafkaError(ErrorCode.INVALID_RECORD, "transactions are not served; produce without transactional.id")
        partition.topic.check_batch(header, self.now)
