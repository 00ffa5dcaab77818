"""Decodes completed fetches to records, one tuple each: numpy finds the fields of thousands in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice, repeat
from typing import NamedTuple, Self

from equipoise.client.fetch.completed_fetch import CompletedFetch, together
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.lanes import Bytes
from equipoise.wire.records.read import read_headers, read_some
from equipoise.wire.records.rows import ROW_BYTES, Flags, Rows, Spans, cut, read_at_once, read_slices

Batch = tuple[int, BatchHeader]
Headers = tuple[tuple[str, bytes | None], ...]
_FEW = 40  # records: for fewer, numpy's calls cost more than they save
_PIECE_BYTES = 4 << 20  # of records that are made one by one
_RECORD_BYTES = 200  # that a record takes besides its key and value


class ConsumerRecord(NamedTuple):
    """A record as poll() returns it."""

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
    """Where a completed fetch cannot be read: the offset, where reading can go on behind it, and why."""

    offset: int
    go_on_at: int
    error: KafkaError

    def told(self, partition: TopicPartition) -> KafkaError:
        """The error for the application, with the offset at which it can go on."""
        return KafkaError(
            self.error.code,
            f"{partition}: the record at offset {self.offset} cannot be read: {self.error.message}; "
            f"seek() to {self.go_on_at} to go on behind its batch",
        )


def choose(fetch: CompletedFetch, position: int, check_crcs: bool) -> tuple[list[Batch], Undecodable | None]:
    """The batches to read from `position` on, up to the first whose CRC is wrong."""
    batches: list[Batch] = []
    for pos, header in fetch.deliverable(position):
        try:
            if check_crcs:
                fetch.check(pos, header)
        except KafkaError as error:
            return batches, Undecodable(max(position, header.base_offset), header.last_offset + 1, error)
        batches.append((pos, header))
    return batches, None


class Undecoded(NamedTuple):
    """A completed fetch, whose it is, and from which offset on it is to be read."""

    partition: TopicPartition
    fetch: CompletedFetch
    position: int


class Piece(NamedTuple):
    """Records of a fetch that are at hand: `cut` makes those from `begin` to `end`. `size`: bytes held for them."""

    cut: Cut
    begin: int
    end: int
    size: int


Pieces = Iterator[Piece | Undecodable]


class Reading:
    """A completed fetch's records, handed out from the front, piece by piece: too many could come of it at once.

    `bad`: why they end before the fetch does; it is known when `is_done`. `size`: bytes held for the piece at hand."""

    def __init__(self, piece: Piece, bad: Undecodable | None, more: Pieces | None = None) -> None:
        self.bad = bad
        self._cut, self._at, self._end, self.size = piece
        self._more = more

    @classmethod
    def of(cls, pieces: Pieces) -> Self:
        """Decodes the first piece; the others follow as records are taken."""
        made = cls(_NONE, None, pieces)
        made._go_on()
        return made

    @property
    def is_done(self) -> bool:
        """Whether no record is left. To know it, the next piece may have to be decoded."""
        return self._at >= self._end and (self._more is None or not self._go_on())

    def _go_on(self) -> bool:
        self._cut, self._at, self._end, self.size = _NONE  # the last piece goes before the next comes
        for piece in self._more or ():
            if isinstance(piece, Undecodable):
                self.bad = piece
            elif piece.begin < piece.end:
                self._cut, self._at, self._end, self.size = piece
                return True
        return False

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Perhaps fewer, though it is not done."""
        at, self._at = self._at, min(self._end, self._at + limit)
        return self._cut(slice(at, self._at))


_NONE = Piece(lambda which: [], 0, 0, 0)


def read(sources: Sequence[Undecoded], check_crcs: bool) -> list[Reading]:
    """The records of each. They are looked for together: numpy's calls cost the same for a thousand as for ten.

    If that cannot be, because one is broken or all are too much together, only the first is read."""
    chosen = [choose(one.fetch, one.position, check_crcs) for one in sources]
    records = sum(header.record_count for batches, _ in chosen for _, header in batches)
    if records >= _FEW or len(sources) > 1:
        try:
            return _together(sources, chosen)
        except (KafkaError, UsageError):
            if len(sources) > 1:
                return read(sources[:1], check_crcs)
    one_way = _slices if records >= _FEW else one_by_one
    return [Reading.of(one_way(sources[0], *chosen[0]))]


def _together(sources: Sequence[Undecoded], chosen: Sequence[tuple[list[Batch], Undecodable | None]]) -> list[Reading]:
    whole, begins = together([one.fetch for one in sources])
    batches, first = [], []
    for one, (mine, _), begin in zip(sources, chosen, begins, strict=True):
        batches += [(begin + pos, header) for pos, header in mine]
        first += [one.position] * len(mine)
    data, rows, counts = read_at_once(whole, batches, first)
    of_batch = counts.tolist()
    found = _Rows(data, rows, _epochs(batches, of_batch))
    size = (ROW_BYTES * len(rows.offset) + (len(data) if len(data) != len(whole) else 0)) // len(sources)
    each = iter(of_batch)
    ends = list(accumulate(sum(islice(each, len(mine))) for mine, _ in chosen))
    return [
        Reading(Piece(partial(found.cut, one.partition), begin, end, size), bad)
        for one, begin, end, (_, bad) in zip(sources, [0, *ends], ends, chosen, strict=False)
    ]


def _slices(source: Undecoded, batches: Sequence[Batch], bad: Undecodable | None) -> Pieces:
    """Batch by batch, and never too many records at once; from where one is broken, one by one, which tells where."""
    reached = source.position
    for number, batch in enumerate(batches):
        epoch = batch[1].partition_leader_epoch
        try:
            for data, rows in read_slices(source.fetch.data, [batch], source.position):
                count = len(rows.offset)
                found = _Rows(data, rows, [epoch] * count)
                reached = int(rows.offset[-1]) + 1 if count else reached
                yield Piece(partial(found.cut, source.partition), 0, count, ROW_BYTES * count + len(data))
        except KafkaError:
            yield from one_by_one(source._replace(position=reached), batches[number:], bad)
            return
    if bad is not None:
        yield bad


def one_by_one(source: Undecoded, batches: Sequence[Batch], bad: Undecodable | None) -> Pieces:
    """Reads batches record by record: for those that numpy cannot take apart, and to find the damaged record."""
    found: list[ConsumerRecord] = []
    size = 0
    for pos, header in batches:
        kind, epoch, reached = int(header.is_log_append_time), header.partition_leader_epoch, header.base_offset
        try:
            for records in read_some(source.fetch.data, pos, header):
                mine = [
                    _record(
                        (*source.partition, one.offset, one.timestamp, kind, one.key, one.value, one.headers, epoch)
                    )
                    for one in records
                    if one.offset >= source.position
                ]
                found += mine
                reached = records[-1].offset + 1 if records else reached
                size += sum(_RECORD_BYTES + len(one.key or b"") + len(one.value or b"") for one in mine)
                if size > _PIECE_BYTES:
                    yield Piece(found.__getitem__, 0, len(found), size)
                    found, size = [], 0
        except KafkaError as error:
            bad = Undecodable(max(source.position, reached), header.last_offset + 1, error)
            break
    yield Piece(found.__getitem__, 0, len(found), size)
    if bad is not None:
        yield bad


class _Rows:
    """Where the parts of all records stand. Records are made when they are handed out: a few hundred at a time stay
    in the processor's cache, thousands do not."""

    def __init__(self, data: Bytes, rows: Rows, epochs: list[int]) -> None:
        self._data = data.data
        self._rows = rows
        self._headers = _headers(self._data, rows)
        self._epochs = epochs

    def cut(self, partition: TopicPartition, which: slice) -> list[ConsumerRecord]:
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
