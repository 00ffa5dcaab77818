"""An executor process's producer: batches to the leaders of their partitions, each stored once and in order.

Several requests are under way on each connection while the next batches are built. When one fails, everything under
way is awaited; what has failed is then sent again, in order and with the numbers it had, until it is stored or its
time is up. A broker knows the numbers, so what it has already is not stored twice.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from equipoise.client.agreement import KafkaConnectionError, error_from
from equipoise.client.connection import Asked, Connection
from equipoise.client.lines import Address, Backoff
from equipoise.client.offsets import PASSING
from equipoise.member.partitions import TopicPartition
from equipoise.settings import INT_MAX
from equipoise.spark.leaders import Leaders
from equipoise.spark.sink_options import ProducerConfig
from equipoise.wire.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, ProtocolError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer
from equipoise.wire.records.build import frame_batch

_ACKS = {"all": -1, "1": 1}
_WITHOUT_IDS = 12  # the newest version of Produce that has topics by name
_MAX_SEQUENCE = 2**31 - 1
_TOPIC_RESOURCE = 2
_CREATION_SECONDS = 5.0  # in which a cluster that creates topics by itself has done so
_REPEATED = PASSING | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
_STORED = ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@dataclass(slots=True, eq=False)
class Batch:
    """Records on their way to a partition."""

    partition: TopicPartition
    data: Buffer
    records: int
    first: str  # which row, as an error names it
    number: int  # in order of sending
    deadline: float
    error: EquipoiseError | None = None
    is_passed_over: bool = False  # out of order, though the first of its partition


Batches = dict[TopicPartition, Batch]


class _UnderWay(NamedTuple):
    address: Address
    connection: Connection
    asked: Asked
    batches: Batches


class Producer:
    """After an error it is of no use any more: `discard` it."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._topics = _Topics(config)
        self._leaders = self._topics.leaders
        self._id = self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._connections: dict[Address, Connection] = {}
        self._waiting: dict[Address, Batches] = {}  # the next request to each leader
        self._under_way: deque[_UnderWay] = deque()
        self._failed: list[Batch] = []
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._count = 0
        self._is_recovering = False

    def partitions(self, topic: str, wanted: int = 1) -> int:
        """How many the topic has; asked for anew if these are fewer than `wanted`, for it may have grown.

        KafkaError: it does not exist; KafkaConnectionError: nobody answers."""
        return self._topics.partitions(topic, wanted)

    def batch_limit(self, topic: str) -> int:
        """Most bytes of records in one batch, so that neither we nor the broker find it too large."""
        return self._topics.batch_limit(topic)

    def send(self, partition: TopicPartition, header: BatchHeader, records: Buffer, first: str) -> None:
        """Takes a batch as `RecordColumns.batches` makes it, and returns before it is stored."""
        if self._failed:
            self._recover()
        data = frame_batch(self._numbered(partition, header), records)
        self._count += 1
        deadline = time.monotonic() + self.config.delivery_timeout_ms / 1000
        self._place(Batch(partition, data, header.record_count, first, self._count, deadline))

    def flush(self) -> None:
        """Returns when all is stored. KafkaError says what is not."""
        self._settle()
        if self._failed:
            self._recover()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._leaders.close()

    def _numbered(self, partition: TopicPartition, header: BatchHeader) -> BatchHeader:
        """By its numbers a broker knows what it has already."""
        if not self.config.enable_idempotence:
            return header
        if self._id < 0:
            self._id, self._epoch = self._topics.new_producer()
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + header.record_count) & _MAX_SEQUENCE
        return header._replace(producer_id=self._id, producer_epoch=self._epoch, base_sequence=sequence)

    # -- sending

    def _place(self, batch: Batch) -> None:
        """Into the next request to the partition's leader; a request holds one batch of a partition."""
        try:
            address = self._leaders.leader(batch.partition).address
        except EquipoiseError as error:
            self._fail([batch], error)
            return
        waiting = self._waiting.setdefault(address, {})
        size = sum(len(one.data) for one in waiting.values())
        if waiting and (batch.partition in waiting or size + len(batch.data) > self.config.max_request_size):
            self._dispatch(address)
        self._waiting.setdefault(address, {})[batch.partition] = batch

    def _dispatch(self, address: Address) -> None:
        batches = self._waiting.pop(address)
        try:
            connection = self._connection(address)
            while sum(one.connection is connection for one in self._under_way) >= self._most_under_way:
                self._receive()
            asked = connection.ask(self._request(batches), _WITHOUT_IDS)
        except KafkaConnectionError as error:
            self._lose(address)
            self._fail(batches.values(), error)
        else:
            self._under_way.append(_UnderWay(address, connection, asked, batches))

    @property
    def _most_under_way(self) -> int:
        return self.config.max_in_flight_requests_per_connection

    def _connection(self, address: Address) -> Connection:
        found = self._connections.get(address)
        if found is not None and not any(one.connection is found for one in self._under_way) and not found.is_quiet:
            self._lose(address)
            found = None
        if found is None:
            found = self._connections[address] = self._leaders.connection(address)
        return found

    def _lose(self, address: Address) -> None:
        lost = self._connections.pop(address, None)
        if lost is not None:
            lost.close()

    def _request(self, batches: Batches) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for (name, number), batch in batches.items():
            topic = topics.setdefault(name, TopicProduceData(name=name, partition_data=[]))
            topic.partition_data.append(PartitionProduceData(index=number, records=memoryview(batch.data)))
        timeout = min(self.config.request_timeout_ms, INT_MAX)
        return ProduceRequest(acks=_ACKS[self.config.acks], timeout_ms=timeout, topic_data=list(topics.values()))

    # -- what came of it

    def _settle(self) -> None:
        """Sends what waits, and awaits every answer."""
        for address in list(self._waiting):
            self._dispatch(address)
        while self._under_way:
            self._receive()

    def _receive(self) -> None:
        address, connection, asked, batches = self._under_way.popleft()
        try:
            answer = connection.answer(asked, ProduceResponse)
        except (KafkaConnectionError, ProtocolError) as error:
            if self._connections.get(address) is connection:
                self._lose(address)
            self._fail(batches.values(), error)
            return
        found = {TopicPartition(t.name, one.index): one for t in answer.responses for one in t.partition_responses}
        for partition, batch in batches.items():
            self._conclude(batch, found[partition])

    def _conclude(self, batch: Batch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        if code in _STORED:
            return
        error = error_from(code, answer.error_message or f"{batch.partition} was refused")
        is_out_of_order = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if code not in _REPEATED and not is_out_of_order:
            raise _refused(batch, error)
        # Otherwise it is out of order for being behind one that failed.
        batch.is_passed_over = is_out_of_order and self._is_recovering
        self._fail([batch], error)

    def _fail(self, batches: Iterable[Batch], error: EquipoiseError) -> None:
        for batch in batches:
            batch.error = error
            self._failed.append(batch)

    # -- again

    def _recover(self) -> None:
        """Sends what has failed again, the first of each partition at a time, until all of it is stored."""
        self._settle()
        self._is_recovering = True
        failures = 1
        while self._failed:
            self._check_deadlines()
            time.sleep(self._backoff.pause(failures))
            self._refresh()
            behind = self._send_first_of_each()
            failures = failures + 1 if self._failed else 0
            self._failed += behind
        self._is_recovering = False

    def _send_first_of_each(self) -> list[Batch]:
        """Those that are behind others of their partition, and have to wait.

        A broker that was killed may remember only the last batch it had of us, and find those before it out of order
        instead of known. They are passed over: where it has, or takes, one that is behind them, it has them too.
        """
        failed, self._failed = sorted(self._failed, key=lambda batch: batch.number), []
        first: Batches = {}
        for batch in failed:
            if not batch.is_passed_over:
                first.setdefault(batch.partition, batch)
        for batch in failed:
            if batch.partition not in first:
                raise _refused(batch, batch.error)
        for batch in first.values():
            self._place(batch)
        self._settle()
        stored = first.keys() - {batch.partition for batch in self._failed}
        waiting = (batch for batch in failed if batch is not first[batch.partition])
        return [batch for batch in waiting if not (batch.is_passed_over and batch.partition in stored)]

    def _refresh(self) -> None:
        try:
            self._leaders.refresh(batch.partition.topic for batch in self._failed)
        except EquipoiseError as error:
            for batch in self._failed:
                batch.error = error

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        for batch in self._failed:
            if batch.deadline < now:
                late = f"not stored within {self.config.delivery_timeout_ms} ms (delivery.timeout.ms): {batch.error}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{_words(batch)} {late}")


def _refused(batch: Batch, error: EquipoiseError | None) -> KafkaError:
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    remedy = ""
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        remedy = f", {len(batch.data)} bytes: raise max.message.bytes of the topic"
        remedy += " or lower kafka.batch.size" if batch.records > 1 else ""
    return KafkaError(code, f"{_words(batch)} not stored: {error}{remedy}")


def _words(batch: Batch) -> str:
    more = f" and {batch.records - 1} more" if batch.records > 1 else ""
    return f"{batch.first}{more}, for {batch.partition},"


class _Topics:
    """What a producer asks before it sends. Whatever fails for want of a connection is repeated for max.block.ms."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self.leaders = Leaders(config.client)
        self._limits: dict[str, int] = {}
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    def partitions(self, topic: str, wanted: int) -> int:
        if self.leaders.partitions.get(topic, 0) < wanted:
            self._patiently(lambda: self._find(topic))
        return self.leaders.partitions[topic]

    def _find(self, topic: str) -> None:
        until = time.monotonic() + min(_CREATION_SECONDS, self._config.max_block_ms / 1000)
        self.leaders.refresh([topic])
        failures = 0
        while not self.leaders.partitions.get(topic):
            if time.monotonic() > until:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic!r} does not exist, and the cluster does not create it: create it, or mend the name",
                )
            failures += 1
            time.sleep(self._backoff.pause(failures))
            self.leaders.refresh([topic])

    def batch_limit(self, topic: str) -> int:
        if topic not in self._limits:
            most = min(self._config.batch_size, self._config.max_request_size, self._max_message_bytes(topic))
            self._limits[topic] = max(1, most - HEADER_SIZE)
        return self._limits[topic]

    def _max_message_bytes(self, topic: str) -> int:
        resource = DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=["max.message.bytes"]
        )
        try:
            answer = self.leaders.ask_anyone(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
            ((found,),) = (result.configs for result in answer.results)
            return int(found.value or INT_MAX)
        except (EquipoiseError, ValueError):  # nobody need tell us; the broker then says which batch is too large
            return INT_MAX

    def new_producer(self) -> tuple[int, int]:
        """An id and its epoch."""
        found: list[tuple[int, int]] = []
        self._patiently(lambda: found.append(self._init_producer()))
        return found[0]

    def _init_producer(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT_MAX)
        answer = self.leaders.ask_anyone(request, InitProducerIdResponse)
        if answer.error_code in _NOT_YET:
            raise KafkaConnectionError(f"the cluster gives no producer id yet ({ErrorCode(answer.error_code).name})")
        if answer.error_code:
            raise error_from(answer.error_code, "the cluster gives no producer id; set kafka.acks=1 to write without")
        return answer.producer_id, answer.producer_epoch

    def _patiently(self, work: Callable[[], None]) -> None:
        until = time.monotonic() + self._config.max_block_ms / 1000
        failures = 0
        while True:
            try:
                return work()
            except KafkaConnectionError as error:
                failures += 1
                pause = self._backoff.pause(failures)
                if time.monotonic() + pause > until:
                    raise KafkaConnectionError(f"{error} (tried for {self._config.max_block_ms} ms)") from None
                time.sleep(pause)


_PRODUCERS: dict[ProducerConfig, Producer] = {}


def producer_of(config: ProducerConfig) -> Producer:
    """This process's producer: its id, its numbers and its connections serve one task after the other."""
    return _PRODUCERS.setdefault(config, Producer(config))


def discard(producer: Producer) -> None:
    _PRODUCERS.pop(producer.config, None)
    producer.close()


def forget_all() -> None:
    """A forked process must neither share connections nor number its batches as its parent does."""
    for producer in list(_PRODUCERS.values()):
        discard(producer)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_all)
