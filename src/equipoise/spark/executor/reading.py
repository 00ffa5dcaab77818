"""A task on an executor: reads its offset ranges straight from the leaders, as Arrow record batches.

A fetch is in flight while the previous one is decoded. A fetch asks for several ranges. The broker fills them in order,
so that small ranges come together and a large one comes alone.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from equipoise.client.fetch.fetch_request import (
    FetchLimits,
    PartitionFetch,
    answered,
    completed_fetch,
    fetch_request,
    is_retriable,
    newest_version,
)
from equipoise.client.metadata.list_offsets import PASSING
from equipoise.client.net.addresses import Address
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.blocking import Connection, InFlightRequest
from equipoise.client.net.errors import KafkaConnectionError, error_from, is_final
from equipoise.member.partitions import TopicPartition
from equipoise.spark.executor.decoding import FetchedRange, decode
from equipoise.spark.executor.leaders import FetchedSizes, Leaders, leaders_of
from equipoise.spark.source.offset_ranges import OffsetRange, ReadTask
from equipoise.wire.apis.k01_fetch import FetchResponse, PartitionData
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, ProtocolError

log = logging.getLogger(__name__)

_MOST_RANGES = 32  # in one fetch: to name more costs more than it brings
_MARGIN, _MARGIN_BYTES = 1.25, 16_384  # asked for above what the records wanted should take, as they may be larger
_SLOW_S = 2.0  # beyond the broker's own wait, before others are asked for the leader
_frozen = False


def read(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """The records of the task's ranges; KafkaError where they cannot be had."""
    freeze()
    return _RangeReader(task, leaders_of(task.options.consumer)).batches()


def freeze() -> None:
    """A worker of Spark collects garbage after each task: what is there by now will stay, and is left alone.

    The worker has collected after its last task, so that only what imports have left can be frozen with it."""
    global _frozen
    if not _frozen:
        gc.freeze()
        _frozen = True


class _Cursor:
    """A range, and how far it is read."""

    __slots__ = ("fetch", "is_dry", "partition", "position", "range")

    def __init__(self, range_: OffsetRange) -> None:
        self.range = range_
        self.partition = TopicPartition(range_.topic, range_.partition)
        self.position = range_.start
        self.fetch = PartitionFetch(range_.start, 0)  # the last that was sent
        self.is_dry = False  # the last fetch brought nothing, though it could have

    @property
    def is_done(self) -> bool:
        return self.position >= self.range.end

    def finish(self) -> None:
        self.position = self.range.end


class _Fetch(NamedTuple):
    """One that is under way."""

    address: Address
    connection: Connection
    asked: InFlightRequest
    cursors: dict[TopicPartition, _Cursor]
    is_patient: bool  # it asked for one range alone, and waits for records of it


class _RangeReader:
    def __init__(self, task: ReadTask, leaders: Leaders) -> None:
        self._options = task.options
        self._config = task.options.consumer
        self._columns = task.columns
        self._leaders = leaders
        self._open = [_Cursor(one) for one in task.ranges if one.size]
        self._ahead: _Fetch | None = None
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._moved_at = time.monotonic()
        self._failures = 0  # since then

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while self._open:
                parts = self._receive()
                self._open = [cursor for cursor in self._open if not cursor.is_done]
                self._ahead = self._send_ahead()
                yield from decode(parts, self._columns)
        finally:
            if self._ahead is not None:  # its answer is no longer needed
                self._ahead.connection.close()

    # -- asking

    def _send_ahead(self) -> _Fetch | None:
        """While nothing is amiss; else it is sent, or fails, when its answer is needed."""
        if not self._open or self._failures:
            return None
        try:
            return self._send()
        except EquipoiseError:
            return None

    def _send(self) -> _Fetch:
        first = self._open[0]
        address = self._leaders.leader(first.partition).address
        cursors = self._next(address)
        fetches = {partition: cursor.fetch for partition, cursor in cursors.items()}
        request = fetch_request(self._limits(is_patient=first.is_dry), fetches)
        connection = self._leaders.connection(address)
        asked = connection.ask(request, newest_version(fetches.values()))
        return _Fetch(address, connection, asked, cursors, is_patient=first.is_dry)

    def _next(self, address: Address) -> dict[TopicPartition, _Cursor]:
        """The next ranges of one leader, each of another partition; alone the first, if it brought nothing so far."""
        found: dict[TopicPartition, _Cursor] = {}
        for cursor in self._open[: 1 if self._open[0].is_dry else _MOST_RANGES]:
            leader = self._leaders.known(cursor.partition)
            if leader is None or leader.address != address or cursor.partition in found:
                continue
            most = self._bytes_wanted(cursor)
            cursor.fetch = PartitionFetch(cursor.position, most, leader.epoch, topic_id=leader.topic_id)
            found[cursor.partition] = cursor
        return found

    def _limits(self, *, is_patient: bool) -> FetchLimits:
        config = self._config
        return FetchLimits(
            max_wait_ms=config.fetch_max_wait_ms if is_patient else 0,
            max_bytes=max(1, min(config.fetch_max_bytes, config.max_partition_fetch_bytes)),
            isolation_level=config.isolation,
        )

    def _bytes_wanted(self, cursor: _Cursor) -> int:
        """A fetch has no end: the broker would fill it with what lies behind the range. But a batch comes whole, and
        one that is larger than asked for comes of the fetch's first partition alone (KIP-74)."""
        sizes = self._leaders.sizes.get(cursor.partition)
        most = self._config.max_partition_fetch_bytes
        if sizes is None:
            return most
        wanted = int(sizes.record * _MARGIN * (cursor.range.end - cursor.position)) + _MARGIN_BYTES
        return min(most, max(wanted, sizes.batch))

    # -- what came of it

    def _receive(self) -> list[FetchedRange]:
        """What the next fetch brought, in the order of the ranges; nothing if it has to be tried again."""
        try:
            fetch, self._ahead = self._ahead or self._send(), None
            self._await(fetch)
            answer = fetch.connection.answer(fetch.asked, FetchResponse)
        except (KafkaConnectionError, KafkaError, ProtocolError) as error:
            self._ahead = None
            if is_final(error) or (isinstance(error, KafkaError) and error.code not in PASSING):
                raise
            self._wait(error)
            return []
        self._leaders.give_back(fetch.address, fetch.connection)
        return self._take_in(fetch, answer)

    def _await(self, fetch: _Fetch) -> None:
        """Waits for the answer. While a leader is slow, other brokers are asked for the leader: it may hang.

        KafkaConnectionError: another broker leads now."""
        deadline = time.monotonic() + self._config.request_timeout_ms / 1000
        pause = self._config.fetch_max_wait_ms / 1000 + _SLOW_S
        while not fetch.connection.is_answered(pause) and time.monotonic() + pause < deadline:
            self._refresh()
            leader = self._leaders.known(self._open[0].partition)
            if leader is not None and leader.address != fetch.address:
                fetch.connection.close()
                raise KafkaConnectionError(f"{fetch.connection.address} does not answer, and leads no more")

    def _take_in(self, fetch: _Fetch, answer: FetchResponse) -> list[FetchedRange]:
        cursors = fetch.cursors.values()
        before = sum(cursor.position for cursor in cursors)
        parts: list[FetchedRange] = []
        trouble: EquipoiseError | None = None
        for cursor, data in answered(answer, fetch.cursors):
            if data.error_code:
                trouble = self._refused(cursor, data.error_code)
            elif data.records:
                parts += self._take_in_records(cursor, data)
            elif cursor is self._open[0]:
                trouble = self._nothing_came(cursor, data, fetch.is_patient)
        if sum(cursor.position for cursor in cursors) > before:
            self._moved_at, self._failures = time.monotonic(), 0
        elif trouble or not answer.responses or not self._open[0].is_dry:
            told = f"{fetch.connection.address} answered without the records that were asked for"
            self._wait(trouble or error_from(answer.error_code, told))
        return parts

    def _take_in_records(self, cursor: _Cursor, data: PartitionData) -> list[FetchedRange]:
        first, end = cursor.position, cursor.range.end
        try:
            fetch = completed_fetch(data, first)
            assert fetch is not None
            batches = [found for found in fetch.deliverable(first) if found[1].base_offset < end]
            if self._config.check_crcs:
                for pos, header in batches:
                    fetch.check(pos, header)
        except KafkaError as error:
            raise KafkaError(error.code, f"{cursor.partition}, fetched from offset {first}: {error.message}") from None
        if batches and 0 <= cursor.range.epoch < batches[-1][1].partition_leader_epoch:
            self._replaced(cursor, batches[-1][1].partition_leader_epoch)
        cursor.position, cursor.is_dry = fetch.next_offset, False
        self._leaders.sizes[cursor.partition] = FetchedSizes.of(fetch.batches)
        return [FetchedRange(cursor.partition, first, end, fetch.data, batches)] if batches else []

    def _nothing_came(self, cursor: _Cursor, data: PartitionData, is_patient: bool) -> EquipoiseError | None:
        """The range was the first in the fetch, so any record of it that the broker has would have come.

        A broker that is short of time may answer so. Only an answer to a fetch that waited, for this range alone,
        shows that nothing is left of it, as compaction may leave nothing.
        """
        cursor.is_dry = True
        reached = data.last_stable_offset if self._config.isolation else data.high_watermark
        if reached < cursor.range.end:
            what = "its last stable offset" if self._config.isolation else "its end"
            return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{cursor.partition} has {what} at {reached}")
        return self._nothing_left(cursor) if is_patient else None

    def _nothing_left(self, cursor: _Cursor) -> EquipoiseError | None:
        """But a broker does not wait longer for remote storage either, and answers as if there were no records there
        (KIP-1018)."""
        try:
            local = self._leaders.local_start(cursor.partition)
        except EquipoiseError as error:
            return error
        if cursor.position < local:
            what = f"the records from offset {cursor.position} on are in remote storage, which has not answered"
            return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{cursor.partition}: {what}")
        log.info("%s: nothing is left from offset %d on", cursor.range, cursor.position)
        cursor.finish()
        return None

    # -- what goes wrong

    def _refused(self, cursor: _Cursor, code: int) -> EquipoiseError | None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(cursor)
        error = self._config.topic_error(code, cursor.partition.topic, f"{cursor.partition} cannot be fetched")
        if is_retriable(code):
            return error
        raise error

    def _out_of_range(self, cursor: _Cursor) -> EquipoiseError | None:
        try:
            earliest, latest = self._leaders.bounds(cursor.partition)
        except EquipoiseError as error:
            return error
        if earliest <= cursor.position <= latest:  # the broker that was fetched from lags behind
            return error_from(ErrorCode.OFFSET_OUT_OF_RANGE, f"{cursor.partition} at {cursor.position}")
        go_on = earliest if cursor.position < earliest < cursor.range.end else cursor.range.end
        self._lose(cursor, go_on, f"the log holds [{earliest}, {latest}) only, the rest was deleted or never there")
        return None

    def _replaced(self, cursor: _Cursor, epoch: int) -> None:
        """Where the batch was planned, an earlier leader had other records (KIP-320): these are lost."""
        told = (
            f"{cursor.range}: a leader of epoch {epoch} has written over records of epoch {cursor.range.epoch}, which "
            "were there when the batch was planned, and are lost"
        )
        if self._options.fail_on_data_loss:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{told}; set failOnDataLoss to false to read what is there"
            )
        log.warning("%s; failOnDataLoss is false, so what stands there now is read", told)

    def _lose(self, cursor: _Cursor, go_on: int, reason: str) -> None:
        """By failOnDataLoss the records up to `go_on` are an error, or left out."""
        gone = f"{cursor.range}: offsets {cursor.position} to {go_on - 1} cannot be read: {reason}"
        if self._options.fail_on_data_loss:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{gone}; set failOnDataLoss to false to go on without them, or name other offsets to begin with",
            )
        log.warning("%s; failOnDataLoss is false, so they are left out", gone)
        cursor.position = go_on

    def _wait(self, error: EquipoiseError) -> None:
        """Pauses and refreshes the leader; raises if nothing has moved for default.api.timeout.ms."""
        if (time.monotonic() - self._moved_at) * 1000 >= self._config.default_api_timeout_ms:
            self._give_up(error)
            return
        log.debug("%s", error)
        self._failures += 1
        time.sleep(self._backoff.pause(self._failures))
        self._refresh()

    def _refresh(self) -> None:
        try:
            self._leaders.refresh(cursor.partition.topic for cursor in self._open)
        except EquipoiseError as trouble:
            log.debug("%s", trouble)

    def _give_up(self, error: EquipoiseError) -> None:
        """A log that ends before the range does has lost records, as has a topic that is gone; the rest is trouble."""
        cursor = self._open[0]
        waited = f"{error} (for {self._config.default_api_timeout_ms / 1000:g} s, default.api.timeout.ms)"
        code = error.code if isinstance(error, KafkaError) else None
        if code in (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            for gone in self._gone_with(cursor):
                self._lose(gone, gone.range.end, waited)
            self._moved_at, self._failures = time.monotonic(), 0
            return
        left = cursor.range._replace(start=cursor.position)
        raise KafkaError(code or ErrorCode.NETWORK_EXCEPTION, f"{left} cannot be read: {waited}") from error

    def _gone_with(self, cursor: _Cursor) -> list[_Cursor]:
        """The range, and all others of its topic that brokers know no more: each would be waited for as long again."""
        topic = cursor.partition.topic
        return [
            one
            for one in self._open
            if one is cursor or (one.partition.topic == topic and self._leaders.known(one.partition) is None)
        ]
