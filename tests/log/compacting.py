"""What tests of compaction share."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.wire.records.build import Record
from tests.log.log_helpers import (
    NOW,
    append,
    batch,
)

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=300, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0
)


def set_key(log: PartitionLog, key: str, value: str | None, now: int = NOW) -> int:
    pair = (key.encode(), None if value is None else value.encode())
    return append(log, batch([pair], timestamps=[now]), now).base_offset


def roll(log: PartitionLog) -> None:
    """Puts everything so far where compaction may touch it."""
    if log._segments[-1].size:
        log._roll()
    log.flush()


def compacted(log: PartitionLog, now: int = NOW) -> int:
    roll(log)
    return log.compact(now)


def state(records: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    """What a reader from the start believes in the end."""
    found = {record.key: record.value for record in records}
    return {key: value for key, value in found.items() if value is not None}
