"""Chunks to records, one tuple each: with numpy, which finds the parts of thousands in one pass, or without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.chunks import Chunk
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.read import read_headers, read_readable

if TYPE_CHECKING:
    from equipoise.wire.records.rows import Rows, Spans

try:
    from equipoise.wire.records.rows import read_rows
except ImportError:  # the extra `equipoise[arrow]` is not installed
    read_rows = None  # type: ignore[assignment]

Batch = tuple[int, BatchHeader]
_FEW = 40  # records: for fewer, numpy's calls cost more than they save


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds
    timestamp_type: int  # 0: the producer's clock, 1: the broker's
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


_record = partial(tuple.__new__, ConsumerRecord)


class Undecodable(NamedTuple):
    """Where a chunk cannot be read: the offset, where reading can go on behind it, and why."""

    offset: int
    go_on_at: int
    error: KafkaError

    def told(self, partition: TopicPartition) -> KafkaError:
        return KafkaError(
            self.error.code,
            f"{partition}: the record at offset {self.offset} cannot be read: {self.error.message}; "
            f"seek() to {self.go_on_at} to go on behind its batch",
        )


def choose(chunk: Chunk, position: int, check_crcs: bool) -> tuple[list[Batch], Undecodable | None]:
    """The batches to read from `position` on, up to the first whose CRC is wrong."""
    batches: list[Batch] = []
    for pos, header in chunk.deliverable(position):
        try:
            if check_crcs:
                chunk.check(pos, header)
        except KafkaError as error:
            return batches, Undecodable(max(position, header.base_offset), header.last_offset + 1, error)
        batches.append((pos, header))
    return batches, None


def read_chunk(
    partition: TopicPartition, chunk: Chunk, position: int, check_crcs: bool
) -> tuple[list[ConsumerRecord], Undecodable | None]:
    """All records from `position` on, and why there are no more if the chunk cannot be read to its end."""
    batches, bad = choose(chunk, position, check_crcs)
    if read_rows is not None and sum(header.record_count for _, header in batches) >= _FEW:
        try:
            return _by_columns(partition, chunk, batches, position), bad
        except (KafkaError, UsageError):
            pass  # some record is broken: those before it are found one by one
    records, worse = _one_by_one(partition, chunk, batches, position)
    return records, worse or bad


def _by_columns(
    partition: TopicPartition, chunk: Chunk, batches: Sequence[Batch], position: int
) -> list[ConsumerRecord]:
    data, rows, counts = read_rows(chunk.data, batches, [position] * len(batches))
    whole = data.tobytes()
    epochs: list[int] = []
    for (_, header), count in zip(batches, counts.tolist(), strict=True):
        epochs += [header.partition_leader_epoch] * count
    return list(
        map(
            _record,
            zip(
                repeat(partition.topic),
                repeat(partition.partition),
                rows.offset.tolist(),
                rows.timestamp.tolist(),
                rows.timestamp_type.tolist(),
                _cells(whole, rows.key, rows.no_key.nonzero()[0].tolist()),
                _cells(whole, rows.value, rows.no_value.nonzero()[0].tolist()),
                _headers(whole, rows),
                epochs,
                strict=False,
            ),
        )
    )


def _cells(whole: bytes, spans: Spans, nulls: list[int]) -> list[bytes | None]:
    if len(nulls) == len(spans):
        return [None] * len(nulls)
    cells: list[bytes | None] = [whole[begin:end] for begin, end in spans.tolist()]
    for row in nulls:
        cells[row] = None
    return cells


def _headers(whole: bytes, rows: Rows) -> list[tuple[tuple[str, bytes | None], ...]]:
    headers: list[tuple[tuple[str, bytes | None], ...]] = [()] * len(rows.offset)
    for row in rows.header_count.nonzero()[0].tolist():
        begin, count, end = int(rows.header_begin[row]), int(rows.header_count[row]), int(rows.end[row])
        headers[row] = read_headers(whole, begin, count, end)
    return headers


def _one_by_one(
    partition: TopicPartition, chunk: Chunk, batches: Sequence[Batch], position: int
) -> tuple[list[ConsumerRecord], Undecodable | None]:
    found: list[ConsumerRecord] = []
    for pos, header in batches:
        records, error = read_readable(chunk.data, pos, header)
        kind, epoch = int(header.is_log_append_time), header.partition_leader_epoch
        found += [
            _record((*partition, one.offset, one.timestamp, kind, one.key, one.value, one.headers, epoch))
            for one in records
            if one.offset >= position
        ]
        if error is not None:
            offset = records[-1].offset + 1 if records else header.base_offset
            return found, Undecodable(max(position, offset), header.last_offset + 1, error)
    return found, None
