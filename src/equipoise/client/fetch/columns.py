"""Decodes completed fetches to Arrow tables: small fetches of many partitions together, none record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from equipoise.client.fetch.completed_fetch import together
from equipoise.client.fetch.fetch_buffer import HEAVY, Load
from equipoise.client.fetch.records import Batch, ConsumerRecord, Undecodable, Undecoded, choose, one_by_one
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.arrow import SCHEMA as RECORD_SCHEMA
from equipoise.wire.records.arrow import as_column, decode_batches, decode_slices, viewed
from equipoise.wire.records.rows import Arena

# Behind the module above, which says what is missing where these are.
import numpy as np  # isort: skip
import pyarrow as pa  # isort: skip

if TYPE_CHECKING:
    from equipoise.client.fetch.fetch_buffer import FetchBuffer, Turn
    from equipoise.wire.records.lanes import Ints

_TOPIC = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([("topic", _TOPIC), ("partition", pa.int32()), *RECORD_SCHEMA])
VIEWED_SCHEMA = viewed(SCHEMA)  # with views=True
_GROUP_BYTES = 4 << 20  # decoded together: enough to spread numpy's costs, and little enough for the processor's cache


More = Iterator[tuple[pa.RecordBatch, int] | Undecodable]  # columns, and the bytes held for them


@dataclass(slots=True, eq=False)
class Slice:
    """A completed fetch as a range of rows in columns that it may share with others; taken from the front."""

    columns: pa.RecordBatch
    at: int
    end: int
    _: KW_ONLY
    bad: Undecodable | None = None
    more: More | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.columns.nbytes * (self.end - self.at) // max(self.columns.num_rows, 1)

    @property
    def is_done(self) -> bool:
        """If it is not, there is something at hand, perhaps after the next rows were decoded."""
        return self.at >= self.end and not self.go_on()

    def go_on(self) -> bool:
        """Takes the next columns of a fetch that is decoded in pieces. False at its end."""
        for found in self.more or ():
            if isinstance(found, Undecodable):
                self.bad = found
            elif found[0].num_rows:
                self.columns, self.size = found
                self.at, self.end = 0, self.columns.num_rows
                return True
        return False


class _Part(NamedTuple):
    """Rows that were taken."""

    columns: pa.RecordBatch
    begin: int
    end: int


class Columns:
    """Takes completed fetches from a buffer as Arrow tables."""

    def __init__(self, fetch_buffer: FetchBuffer, check_crcs: bool) -> None:
        self._fetch_buffer = fetch_buffer
        self._check_crcs = check_crcs
        self._arena = Arena()  # where compressed records are expanded
        self._schema = SCHEMA
        self._topics: list[str] = []  # of all tables, so that the dictionaries of one table are alike
        self._topic_index: dict[str, int] = {}

    def take(self, max_records: int, *, views: bool = False) -> pa.Table | None:
        """Up to so many records as one table; None: there are none."""
        self._schema = VIEWED_SCHEMA if views else SCHEMA
        parts: list[_Part] = []
        left, load = max_records, Load()
        while left > 0 and not load.is_full:
            turns = self._fetch_buffer.turns(left, _GROUP_BYTES, raises=left == max_records)
            if not turns:
                break
            load.unfinished.clear()
            for turn in self._decode(turns):
                if load.takes(turn):
                    part = self._take_from(turn, left, load)
                    left -= part.end - part.begin
                    _append(parts, part)
        return _table(parts, self._schema)

    def _take_from(self, turn: Turn, limit: int, load: Load) -> _Part:
        decoded = turn.fetch.decoded
        assert isinstance(decoded, Slice)
        columns, begin = decoded.columns, decoded.at
        end = min(decoded.end, begin + limit)
        if not limit:
            return _Part(columns, begin, begin)
        load.add(decoded.size)
        decoded.at = end
        reached = columns["offset"][end - 1].as_py() + 1 if end > begin else turn.position
        is_done = decoded.is_done
        if not is_done:
            load.unfinished.append(turn.state)
        is_kept = self._fetch_buffer.advance(turn, reached, is_done, decoded.bad)
        return _Part(columns, begin, end if is_kept else begin)

    # -- decoding

    def _decode(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Gives each fetch its columns, if it has none yet; only the first, if one is broken, or all are too much
        together. Returns those that have them."""
        new = [turn for turn in turns if not isinstance(turn.fetch.decoded, Slice)]
        if not new:
            return turns
        chosen = [choose(turn.fetch, turn.position, self._check_crcs) for turn in new]
        try:
            self._decode_together(new, chosen)
        except (KafkaError, UsageError):
            self._decode_alone(new[0], *chosen[0])
        for turn in new:
            if isinstance(turn.fetch.decoded, Slice) and turn.fetch.decoded.size > HEAVY:
                self._fetch_buffer.opened(turn)
        return [turn for turn in turns if isinstance(turn.fetch.decoded, Slice)]

    def _decode_together(self, turns: Sequence[Turn], chosen: Sequence[tuple[list[Batch], Undecodable | None]]) -> None:
        data, begins = together([turn.fetch for turn in turns])
        order = sorted(range(len(turns)), key=begins.__getitem__)
        turns, chosen = [turns[at] for at in order], [chosen[at] for at in order]
        batches, first = [], []
        for turn, (mine, _), begin in zip(turns, chosen, sorted(begins), strict=True):
            batches += [(begin + pos, header) for pos, header in mine]
            first += [turn.position] * len(mine)
        views = self._schema is VIEWED_SCHEMA
        columns, counts = decode_batches(data, batches, first, self._arena, views=views)
        owners = [index for index, (mine, _) in enumerate(chosen) for _ in mine]
        rows = np.bincount(owners, weights=counts, minlength=len(turns)).astype(np.int64)
        columns = self._with_partitions(columns, turns, rows)
        ends = np.cumsum(rows).tolist()
        for turn, (_, bad), begin, end in zip(turns, chosen, [0, *ends], ends, strict=False):
            turn.fetch.decoded = Slice(columns, begin, end, bad=bad)

    def _with_partitions(self, columns: pa.RecordBatch, turns: Sequence[Turn], rows: Ints) -> pa.RecordBatch:
        partitions = [turn.state.partition for turn in turns]
        topics = np.repeat(np.array([self._index(one.topic) for one in partitions], np.int32), rows)
        numbers = np.repeat(np.array([one.partition for one in partitions], np.int32), rows)
        named = pa.DictionaryArray.from_arrays(as_column(topics), pa.array(self._topics, pa.string()), safe=False)
        schema = pa.schema([SCHEMA.field("topic"), SCHEMA.field("partition"), *columns.schema])
        return pa.RecordBatch.from_arrays([named, as_column(numbers), *columns.columns], schema=schema)

    def _index(self, topic: str) -> int:
        found = self._topic_index.get(topic)
        if found is None:
            found = self._topic_index[topic] = len(self._topics)
            self._topics.append(topic)
        return found

    def _decode_alone(self, turn: Turn, batches: Sequence[Batch], bad: Undecodable | None) -> None:
        """In slices; where a batch is broken, by way of records, which tells good from bad one by one."""
        turn.fetch.decoded = found = Slice(_from_records([]), 0, 0, more=self._slices(turn, batches, bad))
        found.go_on()

    def _slices(self, turn: Turn, batches: Sequence[Batch], bad: Undecodable | None) -> More:
        reached = turn.position
        for number, batch in enumerate(batches):
            try:
                for columns, size in decode_slices(turn.fetch.data, [batch], turn.position):
                    rows = np.array([columns.num_rows], np.int64)
                    reached = columns["offset"][-1].as_py() + 1 if columns.num_rows else reached
                    yield self._with_partitions(columns, [turn], rows), size
            except KafkaError:
                source = Undecoded(turn.state.partition, turn.fetch, reached)
                yield from _by_records(source, batches[number:], bad)
                return
        if bad is not None:
            yield bad


def _by_records(source: Undecoded, batches: Sequence[Batch], bad: Undecodable | None) -> More:
    for piece in one_by_one(source, batches, bad):
        if isinstance(piece, Undecodable):
            yield piece
        else:
            yield _from_records(piece.cut(slice(piece.begin, piece.end))), piece.size


def _from_records(records: Iterable[ConsumerRecord]) -> pa.RecordBatch:
    rows = [one._asdict() for one in records]
    for row in rows:
        del row["leader_epoch"]
        row["headers"] = [{"key": key, "value": value} for key, value in row["headers"]] or None
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def _append(parts: list[_Part], part: _Part) -> None:
    """Rows that stand beside each other stay together: fewer pieces make a quicker table."""
    if part.begin == part.end:
        return
    if parts and parts[-1].columns is part.columns and parts[-1].end == part.begin:
        parts[-1] = parts[-1]._replace(end=part.end)
    else:
        parts.append(part)


def _table(parts: Sequence[_Part], schema: pa.Schema) -> pa.Table | None:
    """Columns that were decoded for another kind of table, or in slices, are cast."""
    if not parts:
        return None
    taken = [columns.slice(begin, end - begin) for columns, begin, end in parts]
    return pa.Table.from_batches([one if one.schema == schema else one.cast(schema) for one in taken], schema)
