"""Delivery of records: a batch on its way, and the future of each record in it.

All records of a batch share its result. The future of a record is therefore only the batch and the record's number: a
producer that sends hundreds of thousands of records per second cannot afford a lock for each.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError, UsageError
from equipoise.wire.records.batch import BatchHeader, Buffer
from equipoise.wire.records.build import Row

log = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
_lock = threading.Lock()  # for the moment between a fate and those who ask for it; one for all batches is enough


class RecordMetadata(NamedTuple):
    """The place of a stored record. `offset` is -1 if the broker did not give it: acks=0, or a repeated batch."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def be_forked() -> None:
    """In the child of a fork nobody gives back what a thread of the parent has locked."""
    global _lock
    _lock = threading.Lock()


Report = Callable[[RecordMetadata | None, EquipoiseError | None], object]  # one of the two is None


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """Records of one partition, in order. `header` and `body` are set when the batch is closed."""

    partition: TopicPartition
    number: int  # in order of sending
    ready_at: float  # the end of linger.ms
    deadline: float
    label: str = "a record"  # of its first, in errors
    rows: list[Row] = field(default_factory=list)
    count: int = 0
    size: int = 0  # bytes of records, at most
    header: BatchHeader | None = None
    body: Buffer = b""
    identity: object = None  # who numbered it
    sequence: int = -1
    failure: EquipoiseError | None = None  # of the last attempt
    is_repeated: bool = False  # sent again, alone, after everything under way was answered
    is_passed_over: bool = False  # out of order, though the first of its partition
    is_watched: bool = False  # somebody will learn of an error
    base_offset: int = UNKNOWN_OFFSET
    append_time: int = -1
    error: EquipoiseError | None = None
    _done: bool = field(default=False, init=False)
    _reports: list[tuple[int, Report]] = field(default_factory=list, init=False)

    @property
    def is_done(self) -> bool:
        """Whether its fate is known."""
        return self._done

    def report(self, index: int, report: Report) -> None:
        """Tells the application what becomes of a record; at once if that is known."""
        self.is_watched = True
        self.when_done(index, report)

    def when_done(self, index: int, report: Report) -> None:
        """As `report`, for those who do not tell the application."""
        with _lock:
            if not self._done:
                self._reports.append((index, report))
                return
        self._tell(index, report)

    def metadata(self, index: int) -> RecordMetadata:
        """Where the record is stored."""
        offset = UNKNOWN_OFFSET if self.base_offset < 0 else self.base_offset + index
        timestamp = self.append_time
        if timestamp < 0 and index < len(self.rows):
            timestamp = self.rows[index][0]
        return RecordMetadata(*self.partition, offset, timestamp)

    def conclude(self, error: EquipoiseError | None) -> None:
        """Once: its records are stored, or never will be by this producer. Reports run in the producer's thread."""
        with _lock:
            self.error = error
            self._done = True
            reports, self._reports = self._reports, []
        self.body = b""
        for index, report in reports:
            self._tell(index, report)

    def be_forked(self) -> None:
        """In the child of a fork nobody would ever conclude it. Reports run in the parent alone."""
        self.error = UsageError("this record was sent by another process, which alone learns of its delivery")
        self._done, self._reports = True, []

    def _tell(self, index: int, report: Report) -> None:
        try:
            report(None if self.error else self.metadata(index), self.error)
        except Exception:  # the application's own; the other records' reports must still run
            log.exception("a delivery report of %s failed", self.partition)


class Delivery:
    """The future of one record: `result()` blocks, `await` does not."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def report(self, report: Report) -> None:
        """`report(metadata, error)` runs in the producer's thread, or here if the fate is known already."""
        self._batch.report(self._index, report)

    def done(self) -> bool:
        """Whether the record's fate is known."""
        return self._batch.is_done

    def exception(self, timeout: float | None = None) -> EquipoiseError | None:
        """Waits for the delivery, and returns the error or None. TimeoutError when the seconds are up."""
        self._batch.is_watched = True
        if not self._batch.is_done:
            event = threading.Event()
            self._batch.report(self._index, lambda *_: event.set())
            if not event.wait(timeout):
                raise TimeoutError(f"a record for {self._batch.partition} is neither stored nor refused yet")
        return self._batch.error

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Returns the place of the stored record, or raises the error. TimeoutError when the seconds are up."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._batch.metadata(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """The producer's thread calls it; or this thread, if the delivery is already known."""
        self._batch.report(self._index, lambda *_: callback(self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self._batch.is_watched = True
        if not self._batch.is_done:
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._batch.report(self._index, lambda *_: loop.call_soon_threadsafe(_set, waiter))
            yield from waiter
        return self.result(0)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
