"""What the tests of the log share: small batches, and logs on disk and in memory behind one face."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from equipoise.log.config import LogConfig
from equipoise.log.partition import Flush, LogAppendInfo, PartitionLog
from equipoise.log.recovery.recovery import recover
from equipoise.log.storage.disk import PartitionFiles
from equipoise.log.storage.memory import MemoryFiles
from equipoise.wire.records.batch import Codec, iter_headers, validate
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_all

NOW = 1_700_000_000_000
ALL = 1 << 40

Pair = tuple[bytes | None, bytes | None]


def batch(
    pairs: Sequence[Pair],
    *,
    timestamps: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """A batch as a producer sends it."""
    times = timestamps or [NOW] * len(pairs)
    records = [Record(i, time, *pair) for i, (pair, time) in enumerate(zip(pairs, times, strict=True))]
    return build_batch(records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def values(*texts: str) -> list[Pair]:
    return [(text.encode(), text.encode()) for text in texts]


def append(log: PartitionLog, data: bytearray, now: int = NOW) -> LogAppendInfo:
    return log.append(data, [(0, validate(data, 0, len(data)))], now)


def put(log: PartitionLog, *texts: str, now: int = NOW, **fields: Any) -> LogAppendInfo:
    """Appends one batch of records whose keys and values are the texts, made at `now`."""
    return append(log, batch(values(*texts), timestamps=[now] * len(texts), **fields), now)


def read_from(log: PartitionLog, offset: int, max_bytes: int = ALL) -> list[Record]:
    """One read, from `offset` on."""
    views = log.read(offset, max_bytes, log.high_watermark)
    return [record for view in views for record in read_all(view) if record.offset >= offset]


def read_log(log: PartitionLog, max_bytes: int = ALL) -> list[Record]:
    """Everything, as a consumer reads it: fetch after fetch."""
    records: list[Record] = []
    offset = log.log_start_offset
    while views := log.read(offset, max_bytes, log.high_watermark):
        data = b"".join(views)
        records += [record for record in read_all(data) if record.offset >= offset]
        offset = _next_offset(data)
    return records


def _next_offset(data: bytes) -> int:
    return [header.last_offset + 1 for _, header in iter_headers(data)][-1]


def offsets(records: Iterable[Record]) -> list[int]:
    return [record.offset for record in records]


def texts(records: Iterable[Record]) -> list[str | None]:
    return [None if record.value is None else record.value.decode() for record in records]


class Medium:
    """Opens a log on disk, or in memory where `path` is None. A log in memory cannot be opened again."""

    def __init__(self, path: Path | None, flush: Flush = "never") -> None:
        self.path = path
        self.flush: Flush = flush
        self.logs: list[PartitionLog] = []

    def open(self, config: LogConfig | None = None) -> PartitionLog:
        config = config or LogConfig()
        if self.path is None:
            log = PartitionLog("t-0", config, MemoryFiles())
        else:
            log = open_log(self.path, config, self.flush)
        self.logs.append(log)
        return log

    def settle(self, log: PartitionLog) -> None:
        """Lets the flusher's work be done, so that rolled segments are sealed."""
        log.flush()

    def close(self) -> None:
        for log in self.logs:
            log.close()


def open_log(path: Path, config: LogConfig | None = None, flush: Flush = "never") -> PartitionLog:
    config = config or LogConfig()
    files = PartitionFiles(path)
    return PartitionLog(path.name, config, files, recover(files, config), flush=flush)
