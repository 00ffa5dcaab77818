"""The blocking producer: its connections run in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from equipoise.client.net.loop_thread import LoopThread
from equipoise.client.producer.accumulator import closed
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.delivery import Delivery, ProducerBatch, Report
from equipoise.client.producer.engine import (
    GivenHeaders,
    OffsetsToCommit,
    ProducerEngine,
    ProducerTopic,
    Text,
    prepare,
)
from equipoise.client.transactions.coordinators import Coordinators
from equipoise.client.transactions.errors import TransactionAbortableError
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.client.transactions.others import ProducerEpoch
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader, Buffer

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

_CLOSE_S = 30.0


class Producer:
    """A blocking producer. Settings have Kafka's names, or are keywords with underscores; docs/producer.md lists them.

        with Producer({"bootstrap.servers": "127.0.0.1:9092"}) as producer:
            producer.send("orders", b"value", key=b"key")

    Threads may share it. The end of `with` waits until all is stored.
    """

    def __init__(self, config: Mapping[str, object] | ProducerConfig | None = None, /, **settings: object) -> None:
        self.config = parse(config, settings)
        self._is_closed = False
        self._finding = threading.Lock()
        self._thread = LoopThread("equipoise-producer")
        self._engine = self._thread.run(open_engine(self.config))
        self._topics = self._engine.topics
        self._append = self._engine.accumulator.append

    def send(
        self,
        topic: str,
        value: Text = None,
        *,
        key: Text = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: GivenHeaders = (),
        on_delivery: Report | None = None,
    ) -> Delivery:
        """Puts a record into a batch and returns its future, before the record is stored.

        The producer's thread calls `on_delivery(metadata, error)`; one of the two is None. send() waits up to
        max.block.ms for the metadata of a new topic, and for room in buffer.memory.
        """
        known = self._topics.get(topic) or self._find(topic)
        row, size = prepare(self.config, value, key, timestamp=timestamp, headers=headers)
        place = known.choose(partition, row[1], size)
        if self._is_closed:
            raise closed()
        delivery = self._append(place, row, size, known.limit)
        if on_delivery is not None:
            delivery.report(on_delivery)
        return delivery

    def send_arrow(self, rows: pa.RecordBatch | pa.Table, topic: str | None = None) -> int:
        """Sends each row of Arrow columns as a record, without a Python object per row, and returns their number.

        Columns: value and, if present, key, headers, partition, timestamp, and topic unless it is given here. Returns
        before the records are stored; `flush` waits for them. Raises the error of earlier records that the application
        has not seen.
        """
        from equipoise.client.producer.arrow import ArrowRows, pieces

        self.raise_unseen()
        sending = ArrowRows(self, topic)
        for batch in rows.to_batches() if hasattr(rows, "to_batches") else [rows]:
            for piece in pieces(batch):
                sending.send(piece)
        return sending.rows

    def flush(self, timeout: float | None = None) -> None:
        """Returns when everything sent so far is stored.

        Raises the first error of a record whose future the application has not looked at and that has no on_delivery,
        so that no error is lost. Raises KafkaError when the seconds are up.
        """
        try:
            self._thread.run(self._engine.sender.flush(), timeout)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not all records were stored within {timeout:g} s") from None
        self.raise_unseen()

    def raise_unseen(self) -> None:
        """Raises the first error that the application has not seen, by a future or by on_delivery."""
        if (unseen := self._engine.take_unseen()) is not None:
            raise unseen

    def topic(self, name: str, wanted: int = 1) -> ProducerTopic:
        """What is known of a topic; asked for anew if it has fewer partitions than `wanted`, for it may have grown.

        KafkaError: it does not exist; KafkaConnectionError: nobody answers."""
        known = self._topics.get(name)
        return known if known is not None and len(known.partitions) >= wanted else self._find(name, wanted)

    def partitions_for(self, topic: str) -> int:
        """The number of partitions of the topic."""
        return len(self.topic(topic).partitions)

    def add(self, partition: TopicPartition, header: BatchHeader, body: Buffer, label: str) -> ProducerBatch:
        """Takes a batch as `RecordColumns.batches` makes it; `label` names its first record in errors."""
        return self._engine.accumulator.add(partition, header, body, label)

    # -- transactions

    def init_transactions(self, transactional_id: str | None = None) -> None:
        """Claims transactional.id: fences the producer that has it, and aborts what that one left open. The first
        begin_transaction() does so if the application has not. With another id the producer goes on under that one."""
        self._thread.run(self._engine.transactions.init(transactional_id))

    def begin_transaction(self) -> None:
        """Records and offsets that are sent from now on count together, or not at all."""
        self._thread.run(self._engine.transactions.begin())

    def send_offsets(self, offsets: OffsetsToCommit, group: ConsumerGroupMetadata | str) -> None:
        """Commits offsets of a consumer's group with the transaction. An offset is that of the next record to read.

        `group`: the consumer's `group_metadata()`. If the consumer has lost its partitions the error is
        TransactionAbortableError.
        """
        self._thread.run(self._engine.send_offsets(offsets, group))

    def prepare_transaction(self) -> ProducerEpoch:
        """Waits until all records are stored, and leaves the commit to another process, which needs the result. Then
        init_transactions() begins anew, under another id, or when that process is done."""
        return self._thread.run(self._engine.transactions.prepare())

    def commit_transaction(self) -> None:
        """Waits until all records are stored, then commits. TransactionAbortableError: one is not stored; abort.
        TransactionTimeoutError: call it again."""
        self._thread.run(self._engine.commit())

    def abort_transaction(self) -> None:
        """Takes back all that was sent since begin_transaction()."""
        self._thread.run(self._engine.abort())

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction that commits at the end of `with`, and is aborted by an exception.

        After TransactionAbortableError it is aborted already, and the work can be done again.
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except TransactionAbortableError:
            self._thread.run(self._engine.abort_open())
            raise
        except BaseException:
            self._thread.run(self._engine.abandon_transaction())
            raise

    def ask_coordinators(self, work: Callable[[Coordinators], Coroutine[Any, Any, Result]]) -> Result:
        """What `work` returns, which asks coordinators on the producer's loop. TransactionTimeoutError after
        max.block.ms."""
        return self._thread.run(self._engine.transactions.ask_others(work))

    def close(self, timeout: float = _CLOSE_S) -> None:
        """Flushes, for at most so many seconds, and ends. Raises as `flush` does. An open transaction is aborted
        instead, in the same time; else the coordinator does so after transaction.timeout.ms."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.accumulator.close()
        try:
            if self._engine.has_open_transaction:
                self._thread.run(self._engine.abandon_transaction(timeout))
            else:
                self.flush(timeout)
        finally:
            self._end()

    def abandon(self) -> None:
        """Ends without waiting. Records in flight may or may not be stored."""
        if not self._is_closed:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        self._thread.run(self._engine.close())
        self._thread.end()

    def _find(self, topic: str, wanted: int = 1) -> ProducerTopic:
        if self._is_closed:
            raise closed()
        self._thread.check_process()  # before the lock: a thread of the parent may have it
        with self._finding:
            return self._thread.run(self._engine.topic(topic, wanted))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After an error of the application, sent records are still stored, but only the application's error is
        raised."""
        try:
            self.close()
        except KafkaError:
            if kind is None:
                raise


def parse(config: Mapping[str, object] | ProducerConfig | None, settings: Mapping[str, object]) -> ProducerConfig:
    """Settings given as a mapping or as keywords, checked."""
    if isinstance(config, ProducerConfig):
        return config
    if config is not None and settings:
        raise UsageError("give settings as one mapping or as keywords, not both")
    return ProducerConfig.parse(config) if config is not None else ProducerConfig.from_keywords(**settings)


async def open_engine(config: ProducerConfig) -> ProducerEngine:
    """Made and started on the running loop."""
    engine = ProducerEngine(config)
    engine.start()
    return engine
