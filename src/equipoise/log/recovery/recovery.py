"""Opens a partition's directory: which bytes can be trusted, and what else a crash left behind.

A sealed part of a segment is trusted; the rest is read batch by batch. The log is cut at the first batch that is torn,
has a wrong CRC or steps back in offsets: nothing after it was acknowledged as durable.

A crash leaves only a torn tail and half-made files. Everything else is damage. It is logged; a file in the way is
renamed, never deleted. `mend=False` only looks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from equipoise.log.config import LogConfig
from equipoise.log.partition import LoadedLog
from equipoise.log.producer_state import ProducerStateManager
from equipoise.log.recovery.misplaced import put_in_order
from equipoise.log.recovery.producers import parse_snapshot, rebuild
from equipoise.log.segment import LogSegment
from equipoise.log.storage.disk import (
    CHECKPOINT,
    PRODUCERS,
    FileStorage,
    PartitionFiles,
    as_it_is,
    put_aside,
    read_json,
    read_note,
    seal_path,
    sync_directory,
    write_note,
)
from equipoise.log.storage.medium import Checkpoint
from equipoise.wire.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_of, iter_headers, read_header

_log = logging.getLogger(__name__)
_LOOK = 1 << 16


def _say(finding: str) -> None:
    _log.error("%s", finding)


def recover(files: PartitionFiles, config: LogConfig) -> LoadedLog:
    """Returns the contents of a partition's directory, mended."""
    return Recovery(files, config).run()


class Recovery:
    """`mend`: whether files are changed. `deep`: whether every batch is read, in spite of seals."""

    def __init__(
        self,
        files: PartitionFiles,
        config: LogConfig,
        *,
        mend: bool = True,
        deep: bool = False,
        tell: Callable[[str], None] = _say,
    ) -> None:
        self._path = files.path
        self._files = files
        self._config = config
        self._mend = mend
        self._deep = deep
        self._tell = tell
        self._segments: list[LogSegment] = []
        self._unsealed: dict[LogSegment, int] = {}  # segments that were read, and from which offset on

    def run(self) -> LoadedLog:
        """Reads the directory, and mends it where `mend` allows (LogLoader.load)."""
        if not self._path.exists():
            return LoadedLog([], ProducerStateManager(), Checkpoint())
        checkpoint = _read_checkpoint(self._path)
        paths = put_in_order(self._path, self._tell, mend=self._mend)
        for number, path in enumerate(paths):
            if not self._take(path, paths[number + 1 :]):
                break
        self._tell_gaps()
        segments = self._without_the_deleted(checkpoint.log_start_offset)
        end_offset = segments[-1].end_offset if segments else checkpoint.log_start_offset
        self._look_at_leftovers(segments, end_offset)
        cleaned = tuple((until, time) for until, time in checkpoint.cleaned if until <= end_offset)
        producers = self._producers(segments, end_offset)
        self._seal()
        return LoadedLog(segments, producers, checkpoint._replace(cleaned=cleaned))

    # Segments

    def _take(self, path: Path, later: list[Path]) -> bool:
        """Adds a segment. False if the log ends with it, whatever files follow."""
        segment = _open(path, self._files, self._config)
        if self._segments and segment.base_offset < self._segments[-1].end_offset:
            self._drop_merged(segment)
            return True
        bad = self._check(segment)
        self._segments.append(segment)
        if not bad or any(self._is_sealed(one) for one in later):
            if bad:
                self._cut(segment, bad, f"{bad} bytes are damaged; the segments after it were synced and stay")
            return True
        self._cut(segment, bad, f"{bad} bytes are no whole batch")
        for one in later:
            self._put_aside(one, f"the segment before it was cut, its {one.stat().st_size} bytes were never synced")
        return False

    def _drop_merged(self, segment: LogSegment) -> None:
        """Deletes segments that compaction merged into the previous segment before a crash. Others are not deleted."""
        path = _path_of(segment)
        self._check(segment, seals=False)
        if segment.end_offset <= self._segments[-1].end_offset:
            self._delete(segment, "compaction merged it into the one before")
        else:
            self._put_aside(path, "the segment before it holds some of its offsets too")

    def _check(self, segment: LogSegment, *, seals: bool = True) -> int:
        """Reads what no seal covers. Returns the number of bytes at the end that are no good batch."""
        storage = segment.storage
        assert isinstance(storage, FileStorage)
        seal = None if self._deep else read_note(seal_path(storage.path), as_it_is)
        if seal is not None and not _unseal(segment, seal) and self._mend:
            seal_path(storage.path).unlink()
            sync_directory(storage.path.parent)
        if segment.sealed and not self._deep:
            storage.close()
            return 0
        good = segment.sealed_size
        if seals:
            self._unsealed[segment] = segment.end_offset
        for position, header in _good_batches(segment):
            segment.note_batch(position, header, segment.modified)
            good = position + header.size
        if self._mend and seals and good == storage.size:
            self._make_durable(segment, good)
        segment.storage.close()
        return storage.size - good

    def _make_durable(self, segment: LogSegment, good: int) -> None:
        storage = segment.storage
        assert isinstance(storage, FileStorage)
        storage.sync()
        sync_directory(storage.path.parent)
        sync_directory(storage.path.parent.parent)
        segment.sealed_size = good
        storage.close()

    def _seal(self) -> None:
        """Notes what was read. It comes last, because the notes tell of aborted transactions too."""
        for segment in self._unsealed if self._mend else ():
            if segment.sealed_size and _path_of(segment).exists():
                write_note(seal_path(_path_of(segment)), segment.seal(), self._files.faults)
            segment.storage.close()

    def _cut(self, segment: LogSegment, bad: int, why: str) -> None:
        """Deletes bytes that only an interrupted write leaves; keeps a copy of others."""
        if not bad:
            return
        storage = segment.storage
        assert isinstance(storage, FileStorage)
        good = storage.size - bad
        if _is_torn(storage, good):
            if self._mend:
                _log.warning("%s: cut after offset %d, %s", storage.path, segment.end_offset, why)
        else:
            kept = storage.path.with_name(f"{storage.path.name}.{good}.damaged")
            self._tell(f"{storage.path}: cut after offset {segment.end_offset}, {why}; they are kept in {kept.name}")
            if self._mend:
                _copy(storage, good, kept)
        if self._mend:
            storage.truncate(good)
            self._make_durable(segment, good)

    def _is_sealed(self, path: Path) -> bool:
        segment = _open(path, self._files, self._config)
        seal = read_note(seal_path(path), as_it_is)
        sealed = seal is not None and _unseal(segment, seal)
        segment.storage.close()
        return sealed

    def _tell_gaps(self) -> None:
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            if before.end_offset < after.base_offset:
                self._tell(
                    f"{self._path}: the records at offsets {before.end_offset} to {after.base_offset - 1} are missing: "
                    "a segment file is gone or damaged. Restore it and restart; until then readers go on behind the gap"
                )

    def _without_the_deleted(self, log_start_offset: int) -> list[LogSegment]:
        """Finishes an interrupted deletion. The last segment stays if the log ends where it starts."""
        kept = []
        for segment in self._segments:
            is_last = segment is self._segments[-1]
            if segment.end_offset < log_start_offset or (segment.end_offset == log_start_offset and not is_last):
                self._delete(segment, f"the log starts at offset {log_start_offset}")
            else:
                kept.append(segment)
        return kept

    def _delete(self, segment: LogSegment, why: str) -> None:
        if self._mend:
            _log.info("%s: deleted, %s", _path_of(segment), why)
            segment.storage.delete()

    def _put_aside(self, path: Path, why: str) -> None:
        self._tell(f"{path}: put aside under another name: {why}")
        if self._mend:
            put_aside(path)
            seal_path(path).unlink(missing_ok=True)

    # What lies beside them

    def _look_at_leftovers(self, segments: list[LogSegment], end_offset: int) -> None:
        """Half-made files, and seals without a segment: left by a deletion, or by a lost file."""
        start = segments[0].base_offset if segments else end_offset
        for file in self._path.iterdir():
            if file.suffix == ".seal" and not file.with_suffix(".log").exists():
                if file.stem.isdigit() and self._tells_of_loss(file, start, segments):
                    continue
            elif file.suffix not in (".cleaned", ".tmp"):
                continue
            if self._mend:
                file.unlink()

    def _tells_of_loss(self, seal: Path, start: int, segments: list[LogSegment]) -> bool:
        end, base = read_note(seal, lambda content: int(content["end_offset"])), int(seal.stem)
        if end is None or base < start or any(one.base_offset < base < one.end_offset for one in segments):
            return False
        self._tell(
            f"{seal.with_suffix('.log')} is missing, with its records up to offset {end - 1}. "
            f"Restore it and restart, or remove {seal.name} to go on without"
        )
        return True

    def _producers(self, segments: list[LogSegment], end_offset: int) -> ProducerStateManager:
        """The last snapshot, and the batches written after it.

        A snapshot from beyond the log's end is useless, and so is one after which batches were deleted: a producer
        would have to repeat what no log has. An unknown producer may continue with any sequence.
        """
        saved = read_note(self._path / PRODUCERS, parse_snapshot)
        oldest = segments[0].base_offset if segments else end_offset
        if saved is not None and saved.offset > end_offset:
            self._tell(
                f"{self._path}: the log ended at offset {saved.offset} when it was last synced, and now ends "
                f"at {end_offset}: the records between are lost. Restore the segment files if you can, and restart"
            )
        if saved is not None and not oldest <= saved.offset <= end_offset:
            if self._mend:
                (self._path / PRODUCERS).unlink(missing_ok=True)
            saved = None
        return rebuild(segments, saved, self._unsealed) if self._mend else ProducerStateManager()


def _read_checkpoint(path: Path) -> Checkpoint:
    return (
        read_json(
            path / CHECKPOINT,
            lambda content: Checkpoint(
                int(content["log_start_offset"]), tuple((int(until), int(time)) for until, time in content["cleaned"])
            ),
            "or remove it: the log then starts at its oldest record",
        )
        or Checkpoint()
    )


def _open(path: Path, files: PartitionFiles, config: LogConfig) -> LogSegment:
    status = path.stat()
    segment = LogSegment(int(path.stem), FileStorage(path, status.st_size, files.disk), config.index_interval_bytes)
    segment.modified = status.st_mtime_ns // 1_000_000
    return segment


def _path_of(segment: LogSegment) -> Path:
    assert isinstance(segment.storage, FileStorage)
    return segment.storage.path


def _unseal(segment: LogSegment, seal: dict[str, Any]) -> bool:
    """A seal that does not fit is worthless: the segment is read instead."""
    try:
        return segment.unseal(seal)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        _log.warning("%s is not used: %r", seal_path(_path_of(segment)), error)
        return False


def _good_batches(segment: LogSegment) -> Iterator[tuple[int, BatchHeader]]:
    (view,) = segment.storage.views(0, segment.size)
    for position, header in iter_headers(view, segment.sealed_size):
        in_order = header.base_offset >= segment.end_offset and header.last_offset_delta >= 0
        if not in_order or header.magic != MAGIC or crc_of(view, position, header.size) != header.crc:
            return
        yield position, header


def _is_torn(storage: FileStorage, position: int) -> bool:
    """Whether these bytes are from an interrupted write: half a batch, or zeros in place of missing bytes."""
    left = storage.size - position
    if left < HEADER_SIZE or not any(storage.peek(position, min(left, _LOOK))):
        return True
    header = read_header(storage.peek(position, HEADER_SIZE))
    return header.magic == MAGIC and header.size > left


def _copy(storage: FileStorage, position: int, target: Path) -> None:
    with open(target, "wb") as file:
        while position < storage.size:
            position += file.write(storage.peek(position, min(storage.size - position, 1 << 20)))
