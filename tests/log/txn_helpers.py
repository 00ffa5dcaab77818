"""Transactions in a log, and what they must look like: a producer, a reader of committed records, and an oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.log.partition import LogAppendInfo, PartitionLog
from equipoise.log.producer_state import Verification
from equipoise.wire.records.batch import BatchHeader, iter_headers, read_header, validate
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.control import read_marker
from equipoise.wire.records.read import read_records
from tests.log.log_helpers import ALL, NOW


def transactional(
    keys: list[str], producer_id: int, epoch: int, sequence: int, *, is_transactional: bool = True
) -> bytearray:
    records = [Record(at, NOW, key.encode(), f"{key}-{producer_id}".encode()) for at, key in enumerate(keys)]
    return build_batch(
        records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=is_transactional
    )


def append_verified(log: PartitionLog, data: bytearray, now: int = NOW, version: int = 0) -> LogAppendInfo:
    header = validate(data, 0, len(data)) if read_header(data).base_sequence >= 0 else read_header(data)
    verification = Verification({(header.producer_id, header.producer_epoch)}, version)
    return log.append(data, [(0, header)], now, verification=verification)


@dataclass
class TxnProducer:
    """A producer whose transactions the coordinator vouches for."""

    log: PartitionLog
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    bumps: bool = False  # transaction version 2: each transaction has its own epoch

    def write(self, *keys: str, now: int = NOW) -> LogAppendInfo:
        data = transactional(list(keys), self.producer_id, self.epoch, self.sequence)
        self.sequence += len(keys)
        return append_verified(self.log, data, now, 2 if self.bumps else 0)

    def end(self, *, commit: bool, now: int = NOW) -> LogAppendInfo:
        if self.bumps:
            self.epoch, self.sequence = self.epoch + 1, 0
        return self.log.append_marker(
            self.producer_id, self.epoch, commit, 0, now=now, transaction_version=2 if self.bumps else 0
        )


def read_committed(log: PartitionLog, max_bytes: int = ALL, from_offset: int | None = None) -> list[Record]:
    """What Java's consumer returns with isolation.level=read_committed, fetch after fetch (CompletedFetch)."""
    records: list[Record] = []
    offset = log.log_start_offset if from_offset is None else from_offset
    while views := log.read(offset, max_bytes, log.last_stable_offset):
        behind = log.offset_behind(views)
        listed = [(txn.first_offset, txn.producer_id) for txn in log.aborted_transactions(offset, behind)]
        data = b"".join(views)
        records += [record for record in not_aborted(data, sorted(listed)) if record.offset >= offset]
        offset = behind
    return records


def not_aborted(data: bytes, listed: list[tuple[int, int]]) -> list[Record]:
    aborted: set[int] = set()
    found: list[Record] = []
    for position, header in iter_headers(data):
        while listed and listed[0][0] <= header.last_offset:
            aborted.add(listed.pop(0)[1])
        if header.is_control:
            marker = read_marker(data, position, header)
            if marker is not None and not marker.commit:
                aborted.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in aborted:
            found += read_records(data, position, header)
    return found


class Batch(NamedTuple):
    """A batch of the log, as the oracle sees it. `commit` is None for data."""

    header: BatchHeader
    records: tuple[Record, ...]
    commit: bool | None


class Txn(NamedTuple):
    producer_id: int
    first: int
    last: int | None  # None: open
    commit: bool


@dataclass
class Oracle:
    """Everything that was ever in the log, looked at from the beginning each time."""

    batches: list[Batch] = field(default_factory=list)

    def take(self, log: PartitionLog) -> None:
        """What was appended since."""
        end = self.batches[-1].header.last_offset + 1 if self.batches else 0
        while end < log.log_end_offset:
            data = b"".join(log.read(end, ALL, log.log_end_offset))
            for position, header in iter_headers(data):
                if header.base_offset < end:
                    continue
                marker = read_marker(data, position, header) if header.is_control else None
                records = () if header.is_control else tuple(read_records(data, position, header))
                self.batches.append(Batch(header, records, None if marker is None else marker.commit))
                end = header.last_offset + 1

    def transactions(self, end: int) -> list[Txn]:
        """All of them, in the log up to `end`: those that ended by their markers, then those that are open."""
        open_, ended = dict[int, int](), list[Txn]()
        for header, _, commit in self.batches:
            if header.base_offset >= end:
                break
            if commit is not None:
                if header.producer_id in open_:
                    first = open_.pop(header.producer_id)
                    ended.append(Txn(header.producer_id, first, header.base_offset, commit))
            elif header.is_transactional:
                open_.setdefault(header.producer_id, header.base_offset)
        return ended + [Txn(producer_id, first, None, False) for producer_id, first in open_.items()]

    def last_stable_offset(self, high_watermark: int, end: int, start: int = 0) -> int:
        unstable = [txn.first for txn in self.transactions(end) if txn.last is None or txn.last >= high_watermark]
        return min([high_watermark, *(max(first, start) for first in unstable)])

    def aborted(self, from_offset: int, to_offset: int, end: int) -> list[tuple[int, int, int]]:
        return [
            (txn.producer_id, txn.first, txn.last)
            for txn in self.transactions(end)
            if txn.last is not None and not txn.commit and txn.last >= from_offset and txn.first < to_offset
        ]

    def committed(self, end: int, start: int = 0) -> list[Record]:
        """What a reader of committed records may see, were all of it durable."""
        stable, found = self.last_stable_offset(end, end, start), list[Record]()
        aborted = [txn for txn in self.transactions(end) if txn.last is not None and not txn.commit]
        for header, records, _ in self.batches:
            is_aborted = header.is_transactional and any(
                txn.producer_id == header.producer_id and txn.first <= header.base_offset <= (txn.last or 0)
                for txn in aborted
            )
            if start <= header.last_offset < stable and not is_aborted:
                found += [record for record in records if record.offset >= start]
        return found
