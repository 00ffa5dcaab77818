"""Rebuilds the state of producers, and the index of aborted transactions, from a snapshot and the batches after it.

The seals of segments hold the aborted transactions up to where they reach. The snapshot has those of the segment that
was not sealed then. What neither tells is rebuilt from all batches: no file of its own has to be kept in step with the
segments (Kafka has `.txnindex` files, and rebuilds them in the same cases).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from equipoise.log.producer_state import AbortedTxn, ProducerStateManager
from equipoise.log.segment import LogSegment
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.control import EndTransactionMarker, read_marker


class SavedProducers(NamedTuple):
    """A snapshot: the producers at `offset`, and the aborted transactions from `unsealed_from` to there."""

    offset: int
    producers: ProducerStateManager
    unsealed_from: int = 0
    aborted: Sequence[AbortedTxn] = ()


def parse_snapshot(content: dict[str, Any]) -> SavedProducers:
    """A snapshot as it was noted. One without aborted transactions is from before there were any."""
    return SavedProducers(
        int(content["offset"]),
        ProducerStateManager.from_json(content["producers"]),
        int(content.get("unsealed_from", 0)),
        [AbortedTxn(*entry) for entry in content.get("aborted", ())],
    )


def rebuild(
    segments: Sequence[LogSegment], saved: SavedProducers | None, unsealed: Mapping[LogSegment, int]
) -> ProducerStateManager:
    """The producers at the end of `segments`. Fills in what the segments miss of aborted transactions.

    `unsealed`: segments that have no seal, or outgrew it, and from which offset on
    (ProducerStateManager.loadFromSnapshot, LogSegment.recover).
    """
    oldest = segments[0].base_offset if segments else 0
    read_from = min((offset for segment, offset in unsealed.items() if segment in segments), default=None)
    if saved is None or (read_from is not None and read_from < min(saved.offset, saved.unsealed_from)):
        saved = SavedProducers(oldest, ProducerStateManager())
    rebuilding = _Rebuilding(segments, saved, unsealed)
    rebuilding.run()
    return saved.producers


class _Rebuilding:
    def __init__(
        self, segments: Sequence[LogSegment], saved: SavedProducers, unsealed: Mapping[LogSegment, int]
    ) -> None:
        self._segments = segments
        self._saved = saved
        self._unsealed = unsealed

    def run(self) -> None:
        for segment in self._segments:
            self._enter(segment, self._saved.aborted)
        for segment in self._segments:
            if segment.end_offset > self._saved.offset:  # most of them are not: no need to open their files
                self._enter(segment, self._replayed(segment))

    def _enter(self, segment: LogSegment, aborted: Iterable[AbortedTxn]) -> None:
        """The seal has what lies before the unsealed part."""
        begin = self._unsealed.get(segment, segment.end_offset)
        segment.aborted += [one for one in aborted if begin <= one.last_offset < segment.end_offset]

    def _replayed(self, segment: LogSegment) -> Iterator[AbortedTxn]:
        for position, header in segment.headers(segment.position_of(self._saved.offset)):
            aborted = self._saved.producers.replay(header, _marker(segment, position, header))
            if aborted is not None:
                yield aborted


def _marker(segment: LogSegment, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    if not header.is_control:
        return None
    (view,) = segment.storage.views(position, position + header.size)
    return read_marker(view, 0, header)
