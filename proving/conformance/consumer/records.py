"""What a step has written to `__consumer_offsets`: the records of its groups, in order, as plain data.

Hashes and times are brokers' own: of them only whether there is one. Records that stand side by side and are of one
type come out of hash maps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from equipoise.coordinator.placement import partition_for
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from equipoise.wire.offsets_records import OffsetCommitKey, UnknownRecordType, decode_record
from equipoise.wire.records.read import read_all
from equipoise.wire.schema import Struct
from proving.conformance.line import Line
from proving.conformance.normal import Names, by_topic

_TOPIC = "__consumer_offsets"
_LATEST = -1
_LIST_VERSION, _FETCH_VERSION = 5, 12
_BYTES = 10_000_000
TOMBSTONE, _REMOVED = "tombstone", "removed"
_OF_MEMBERS = (5, 7, 8)
_ONLY_WHETHER = ("metadata_hash", "assignment_timestamp", "timestamp", "version", "current_state_timestamp")

Row = tuple[int, str]  # the type of a record, and what it says


def _in_order(run: int | str, rows: Iterable[Row]) -> list[str]:
    """The tombstones of a member stay in their order."""
    texts = [text for _, text in rows]
    return sorted(texts, key=lambda text: text.partition(" ")[2]) if run == _REMOVED else sorted(texts)


def _run(row: Row) -> int | str:
    """Records of the same run may come in any order: of one type, or the tombstones of several members."""
    record_type, text = row
    return _REMOVED if record_type in _OF_MEMBERS and text.endswith(TOMBSTONE) else record_type


class Writings:
    """The records of the groups of one play, read as they come."""

    def __init__(self, line: Line, names: Names, partitions: int) -> None:
        self._line = line
        self._names = names
        self._offsets = {partition_for(group, partitions): 0 for group in names.groups.values()}
        for partition in self._offsets:
            self._offsets[partition] = self._end(partition)
        self._last: dict[bytes, str] = {}

    def read_on(self, line: Line) -> None:
        """On another connection."""
        self._line = line

    def remember(self, other: Writings) -> None:
        """What was written elsewhere, and is no news here."""
        self._last = dict(other._last)

    def read(self) -> list[str]:
        """What was written since it was last asked for."""
        rows = [row for partition in sorted(self._offsets) for row in self._rows(partition)]
        return [text for run, same in itertools.groupby(rows, _run) for text in _in_order(run, same)]

    def _end(self, partition: int) -> int:
        asked = ListOffsetsTopic(
            name=_TOPIC, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)]
        )
        answer = self._line.call(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked]), _LIST_VERSION)
        assert isinstance(answer, ListOffsetsResponse)
        return answer.topics[0].partitions[0].offset

    def _rows(self, partition: int) -> Iterator[Row]:
        for record in self._records(partition):
            found = decode_record(record.key or b"", record.value)
            if isinstance(found, UnknownRecordType) or isinstance(found.key, OffsetCommitKey):
                continue
            group = str(getattr(found.key, "group_id", "") or getattr(found.key, "group", ""))
            if not self._names.is_own(group):
                continue
            text = f"{found.key.versions.last} {self._words(found.key)}: {self._value(found.value)}"
            if found.key.versions.last != _REGEX or self._is_news(record.key or b"", text):
                yield found.key.versions.last, text

    def _is_news(self, key: bytes, text: str) -> bool:
        """Kafka looks at regexes again whenever somebody makes a topic."""
        before, self._last[key] = self._last.get(key), text
        return before != text

    def _records(self, partition: int) -> Iterable[Any]:
        while True:
            wanted = FetchPartition(
                partition=partition, fetch_offset=self._offsets[partition], partition_max_bytes=_BYTES
            )
            asked = FetchTopic(topic=_TOPIC, partitions=[wanted])
            answer = self._line.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked]), _FETCH_VERSION)
            assert isinstance(answer, FetchResponse)
            (found,) = answer.responses[0].partitions
            assert isinstance(found.records, memoryview | None)  # decoded as a view of the frame
            records = [one for one in read_all(found.records or b"") if one.offset >= self._offsets[partition]]
            if not records:
                return
            yield from records
            self._offsets[partition] = records[-1].offset + 1

    def _value(self, value: Struct | None) -> str:
        if value is None:
            return TOMBSTONE
        if "generation" in value.fields:  # the classic scripts compare what is in it
            return f"generation {value.generation}"  # type: ignore[attr-defined]
        return self._words(value)

    def _words(self, struct: Struct) -> str:
        return " ".join(f"{name}={self._word(name, getattr(struct, name))}" for name in struct.fields)

    def _word(self, name: str, value: Any) -> str:
        if name in _ONLY_WHETHER:
            return str(bool(value))
        if name in ("group_id", "group"):
            return self._names.group(value)
        if name == "member_id":
            return self._names.member(value)
        if isinstance(value, str):
            return self._names.without_own(value) or "-"
        if isinstance(value, Struct):
            return f"({self._words(value)})"
        if name in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
            return str(self._partitions(value))
        if isinstance(value, bytes):
            return self._names.readable(value)
        if isinstance(value, list):
            return "[" + ", ".join(self._word("", one) for one in value) + "]"
        return str(value)

    def _partitions(self, rows: list[Any]) -> Mapping[str, Any]:
        parts: dict[str, Any] = dict(by_topic(rows, self._names))
        for row in rows:
            epochs = getattr(row, "assignment_epochs", None)
            if epochs is not None:
                parts[self._names.topic(row.topic_id)] = sorted(zip(row.partitions, epochs, strict=True))
        return parts


_REGEX = 16
