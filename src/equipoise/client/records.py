"""Chunks to records, one tuple each: with numpy, which finds the parts of thousands in one pass, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate, islice, repeat
from typing import NamedTuple

from equipoise.client.chunks import Chunk, together
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.read import read_headers, read_readable
from equipoise.wire.records.rows import Flags, Rows, Spans, cut, read_rows

Batch = tuple[int, BatchHeader]
Headers = tuple[tuple[str, bytes | None], ...]
_FEW = 40  # records: for fewer, numpy's calls cost more than they save


class ConsumerRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds
    timestamp_type: int  # 0: the producer's clock, 1: the broker's
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int


Cut = Callable[[slice], list[ConsumerRecord]]

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


class Source(NamedTuple):
    """A chunk, whose it is, and from which offset on it is to be read."""

    partition: TopicPartition
    chunk: Chunk
    position: int


class Reading:
    """A chunk's records, handed out from the front. `bad`: why they end before the chunk does."""

    def __init__(self, cut: Cut, begin: int, end: int, bad: Undecodable | None) -> None:
        self.bad = bad
        self._cut = cut
        self._at, self._end = begin, end

    @property
    def is_done(self) -> bool:
        return self._at >= self._end

    def take(self, limit: int) -> list[ConsumerRecord]:
        at, self._at = self._at, min(self._end, self._at + limit)
        return self._cut(slice(at, self._at))

    def take_all(self) -> list[ConsumerRecord]:
        return self.take(self._end - self._at)


def read(sources: Sequence[Source], check_crcs: bool) -> list[Reading]:
    """Each chunk's records. They are looked for together: numpy's calls cost the same for a thousand as for ten."""
    chosen = [choose(one.chunk, one.position, check_crcs) for one in sources]
    if sum(header.record_count for batches, _ in chosen for _, header in batches) >= _FEW:
        try:
            return _Rows(sources, [batches for batches, _ in chosen]).readings([bad for _, bad in chosen])
        except (KafkaError, UsageError):
            if len(sources) > 1:  # one is broken, or all are too large together
                return [reading for one in sources for reading in read([one], check_crcs)]
    return [_one_by_one(one, *what) for one, what in zip(sources, chosen, strict=True)]


class _Rows:
    """Where the parts of all records stand. Records are made when they are handed out: a few hundred at a time stay
    in the processor's cache, thousands do not."""

    def __init__(self, sources: Sequence[Source], chosen: Sequence[Sequence[Batch]]) -> None:
        self._sources = sources
        whole, begins = together([one.chunk for one in sources])
        batches, first = [], []
        for one, mine, begin in zip(sources, chosen, begins, strict=True):
            batches += [(begin + pos, header) for pos, header in mine]
            first += [one.position] * len(mine)
        data, self._rows, counts = read_rows(whole, batches, first)
        self._data = data.data
        self._headers = _headers(self._data, self._rows)
        of_batch = counts.tolist()
        self._epochs = _epochs(batches, of_batch)
        each = iter(of_batch)
        self._ends = list(accumulate(sum(islice(each, len(mine))) for mine in chosen))

    def readings(self, bad: Sequence[Undecodable | None]) -> list[Reading]:
        ranges = zip(self._sources, [0, *self._ends], self._ends, bad, strict=False)
        return [Reading(partial(self._cut, one.partition), begin, end, why) for one, begin, end, why in ranges]

    def _cut(self, partition: TopicPartition, which: slice) -> list[ConsumerRecord]:
        if which.start == which.stop:
            return []
        rows = cut(self._rows, which)
        begin = int(rows.key[0, 0])
        whole = self._data[begin : rows.end[-1]].tobytes()  # of which parts are cut off twice as fast as of a view
        columns = zip(
            repeat(partition.topic, len(rows.offset)),
            repeat(partition.partition),
            rows.offset.tolist(),
            rows.timestamp.tolist(),
            rows.timestamp_type.tolist(),
            _cells(whole, rows.key - begin, rows.no_key),
            _cells(whole, rows.value - begin, rows.no_value),
            repeat(()) if self._headers is None else self._headers[which],
            self._epochs[which],
            strict=False,  # some have no end
        )
        return list(map(tuple.__new__, repeat(ConsumerRecord), columns))


def _cells(whole: bytes, spans: Spans, null: Flags) -> Iterable[bytes | None]:
    nulls = null.nonzero()[0].tolist()
    if len(nulls) == len(spans):
        return repeat(None)
    # Two lists of numbers rather than one of pairs: a pair for each record keeps the garbage collector busy.
    cells: list[bytes | None] = [
        whole[begin:end] for begin, end in zip(spans[:, 0].tolist(), spans[:, 1].tolist(), strict=True)
    ]
    for row in nulls:
        cells[row] = None
    return cells


def _headers(data: memoryview, rows: Rows) -> list[Headers] | None:
    with_headers = rows.header_count.nonzero()[0].tolist()
    if not with_headers:
        return None
    headers: list[Headers] = [()] * len(rows.offset)
    for row in with_headers:
        whole = data[rows.header_begin[row] : rows.end[row]].tobytes()
        headers[row] = read_headers(whole, int(rows.header_count[row]))
    return headers


def _epochs(batches: Sequence[Batch], counts: Sequence[int]) -> list[int]:
    epochs: list[int] = []
    for (_, header), count in zip(batches, counts, strict=True):
        epochs += [header.partition_leader_epoch] * count
    return epochs


def _one_by_one(source: Source, batches: Sequence[Batch], bad: Undecodable | None) -> Reading:
    found: list[ConsumerRecord] = []
    for pos, header in batches:
        records, error = read_readable(source.chunk.data, pos, header)
        kind, epoch = int(header.is_log_append_time), header.partition_leader_epoch
        found += [
            _record((*source.partition, one.offset, one.timestamp, kind, one.key, one.value, one.headers, epoch))
            for one in records
            if one.offset >= source.position
        ]
        if error is not None:
            offset = records[-1].offset + 1 if records else header.base_offset
            bad = Undecodable(max(source.position, offset), header.last_offset + 1, error)
            break
    return Reading(found.__getitem__, 0, len(found), bad)
