"""Control batches: the markers that end a transaction in a partition (KIP-98). Only brokers write them."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from equipoise.wire.errors import KafkaError
from equipoise.wire.records.batch import BatchHeader, Buffer
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_records

_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_ABORT, _COMMIT = 0, 1  # the types that end a transaction; Raft's own have other numbers


class EndTransactionMarker(NamedTuple):
    """The content of a marker (EndTransactionMarker)."""

    commit: bool
    coordinator_epoch: int


def build_marker(producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp: int) -> bytearray:
    """The control batch of one marker: 78 bytes (MemoryRecords.withEndTransactionMarker). Rule T.40a."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(0, timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(buf: Buffer, pos: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker in the control batch at `pos`; None if compaction has emptied it, or if it ends no transaction.

    Later versions may have longer keys and values (EndTransactionMarker.deserialize). A log must open whatever a
    control record holds: what is no marker ends nothing.
    """
    try:
        records = read_records(buf, pos, header)
        if not records:
            return None
        _, kind = _KEY.unpack_from(records[0].key or b"")
        _, coordinator_epoch = _VALUE.unpack_from(records[0].value or b"")
    except (StructError, KafkaError):
        return None
    return EndTransactionMarker(kind == _COMMIT, coordinator_epoch) if kind in (_ABORT, _COMMIT) else None
