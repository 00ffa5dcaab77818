"""The part of a Fetch answer that belongs to one partition: whole batches, found on the loop and decoded by the
application's thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from struct import Struct
from typing import Protocol

import numpy as np

from equipoise.wire.apis.k01_fetch import AbortedTransaction
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader, check_crc, check_readable, iter_headers
from equipoise.wire.records.scan import scan, unpack

_CONTROL_KEY = Struct(">hh")  # version and type of a control record
_ABORT = 0


class CompletedFetch:
    """`batches` are complete, with readable headers; `next_offset` is where the next fetch goes on."""

    __slots__ = ("aborted", "batches", "data", "decoded", "next_offset", "size")

    def __init__(self, data: memoryview, offset: int, aborted: Sequence[AbortedTransaction]) -> None:
        """Raises KafkaError if there is nothing that can be read at `offset`."""
        self.data = data
        self.size = len(data)
        self.aborted = aborted
        self.batches = _readable(data)
        self.next_offset = max(offset, self.batches[-1][1].last_offset + 1)
        self.decoded: object = None  # whatever the reader made of it

    @property
    def last_epoch(self) -> int:
        """The leader epoch of its last record."""
        return self.batches[-1][1].partition_leader_epoch

    def epoch_before(self, position: int) -> int | None:
        """Of the last record before `position`; None: that was in an earlier one."""
        before = [header.partition_leader_epoch for _, header in self.batches if header.base_offset < position]
        return before[-1] if before else None

    def deliverable(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches with records for the application, from `position` on: no control batches, nothing aborted."""
        pending = sorted(self.aborted, key=lambda one: one.first_offset, reverse=True)
        aborting: set[int] = set()
        for pos, header in self.batches:
            while pending and pending[-1].first_offset <= header.last_offset:
                aborting.add(pending.pop().producer_id)
            if header.is_control:
                if header.producer_id in aborting and self._is_abort(pos, header):
                    aborting.discard(header.producer_id)
            elif header.last_offset >= position and not (header.is_transactional and header.producer_id in aborting):
                yield pos, header

    def check(self, pos: int, header: BatchHeader) -> None:
        """Raises KafkaError if the batch's CRC32C is another than its header says."""
        check_crc(self.data, pos, header)

    def _is_abort(self, pos: int, header: BatchHeader) -> bool:
        first = next(scan(unpack(self.data[pos:], header), header), None)
        key = None if first is None else first.key
        return key is not None and len(key) >= _CONTROL_KEY.size and _CONTROL_KEY.unpack_from(key)[1] == _ABORT


class Fetched(Protocol):
    """Bytes that a fetch brought."""

    @property
    def data(self) -> memoryview:
        """A view of the answer."""

    @property
    def size(self) -> int:
        """Of the view, in bytes."""


def together(fetches: Sequence[Fetched]) -> tuple[memoryview | bytes, list[int]]:
    """The bytes in which all of them stand, and where each begins there: the answer that brought them, or a copy."""
    frame = fetches[0].data.obj
    if all(fetch.data.obj is frame for fetch in fetches):
        begin = _address(memoryview(frame))
        return memoryview(frame), [_address(fetch.data) - begin for fetch in fetches]
    ends = list(accumulate(fetch.size for fetch in fetches))
    return b"".join([fetch.data for fetch in fetches]), [0, *ends[:-1]]


def _address(view: memoryview) -> int:
    found: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return found


def _readable(data: memoryview) -> list[tuple[int, BatchHeader]]:
    """The complete batches, up to the first unreadable one, which will be the first of the next fetch."""
    batches: list[tuple[int, BatchHeader]] = []
    for pos, header in iter_headers(data):
        try:
            check_readable(header)
        except KafkaError:
            if not batches:
                raise
            break
        batches.append((pos, header))
    if not batches:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes came that hold no complete record batch")
    return batches
