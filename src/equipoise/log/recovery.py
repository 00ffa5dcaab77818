"""Opening a partition's directory: which bytes can be trusted, and what else a crash left behind.

A sealed part of a segment is trusted, the rest is read batch by batch. At the first batch that is torn, has
a wrong CRC or steps back in offsets the log is cut: everything after it was never acknowledged as durable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from equipoise.log.config import LogConfig
from equipoise.log.disk import (
    CHECKPOINT,
    PRODUCERS,
    FileStorage,
    PartitionFiles,
    read_json,
    read_note,
    seal_path,
    sync_directory,
    write_note,
)
from equipoise.log.faults import Faults
from equipoise.log.medium import Checkpoint
from equipoise.log.producers import Producers
from equipoise.log.segment import Segment
from equipoise.wire.records.batch import MAGIC, BatchHeader, crc_of, iter_headers

_log = logging.getLogger(__name__)


class Recovered(NamedTuple):
    segments: list[Segment]
    producers: Producers
    checkpoint: Checkpoint


def recover(files: PartitionFiles, config: LogConfig) -> Recovered:
    """What a partition's directory holds, mended."""
    if not files.path.exists():
        return Recovered([], Producers(), Checkpoint())
    _remove_leftovers(files.path)
    checkpoint = _read_checkpoint(files.path)
    segments: list[Segment] = []
    paths = sorted(files.path.glob("[0-9]" * 20 + ".log"))
    for number, path in enumerate(paths):
        segment = _open(path, files, config)
        if segments and segment.base_offset < segments[-1].end_offset:
            _delete(segment, "compaction merged it into the one before")
            continue
        whole = _check(segment, files.disk.faults)
        segments.append(segment)
        if not whole:
            _delete_all(paths[number + 1 :])
            break
    segments = _without_the_deleted(segments, checkpoint.log_start_offset)
    end_offset = segments[-1].end_offset if segments else checkpoint.log_start_offset
    cleaned = tuple((until, time) for until, time in checkpoint.cleaned if until <= end_offset)
    return Recovered(segments, _producers(files.path, segments, end_offset), checkpoint._replace(cleaned=cleaned))


def _remove_leftovers(path: Path) -> None:
    """Half-made files, and seals without a segment."""
    for file in path.iterdir():
        orphan = file.suffix == ".seal" and not file.with_suffix(".log").exists()
        if orphan or file.suffix in (".cleaned", ".tmp"):
            file.unlink()


def _read_checkpoint(path: Path) -> Checkpoint:
    content = read_json(path / CHECKPOINT)
    if content is None:
        return Checkpoint()
    return Checkpoint(content["log_start_offset"], tuple((until, time) for until, time in content["cleaned"]))


def _open(path: Path, files: PartitionFiles, config: LogConfig) -> Segment:
    status = path.stat()
    segment = Segment(int(path.stem), FileStorage(path, status.st_size, files.disk), config.index_interval_bytes)
    segment.modified = status.st_mtime_ns // 1_000_000
    return segment


def _check(segment: Segment, faults: Faults) -> bool:
    """Reads what no seal vouches for, and cuts it at the first bad batch. False if something was cut."""
    storage = segment.storage
    assert isinstance(storage, FileStorage)
    seal = read_note(seal_path(storage.path))
    if seal is not None and not segment.unseal(seal):
        seal_path(storage.path).unlink()
        sync_directory(storage.path.parent)
    if segment.sealed:
        storage.close()
        return True
    good = segment.sealed_size
    for position, header in _good_batches(segment):
        segment.take_in(position, header, segment.modified)
        good = position + header.size
    bad = storage.size - good
    if bad:
        _log.warning("%s: cut after offset %d, %d bytes are no whole batch", storage.path, segment.end_offset, bad)
        storage.truncate(good)
    storage.sync()
    sync_directory(storage.path.parent)
    sync_directory(storage.path.parent.parent)
    if good:
        write_note(seal_path(storage.path), segment.seal(), faults)
        segment.sealed_size = good
    storage.close()
    return not bad


def _good_batches(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    (view,) = segment.storage.views(0, segment.size)
    for position, header in iter_headers(view, segment.sealed_size):
        in_order = header.base_offset >= segment.end_offset and header.last_offset_delta >= 0
        if not in_order or header.magic != MAGIC or crc_of(view, position, header.size) != header.crc:
            return
        yield position, header


def _delete_all(paths: list[Path]) -> None:
    for path in paths:
        _log.warning("%s: deleted with its %d bytes, the segment before it was cut", path, path.stat().st_size)
        FileStorage(path).delete()


def _delete(segment: Segment, why: str) -> None:
    assert isinstance(segment.storage, FileStorage)
    _log.info("%s: deleted, %s", segment.storage.path, why)
    segment.storage.delete()


def _without_the_deleted(segments: list[Segment], log_start_offset: int) -> list[Segment]:
    """Finishes a deletion that was under way. The last segment stays if the log ends where it starts."""
    kept = []
    for segment in segments:
        is_last = segment is segments[-1]
        if segment.end_offset < log_start_offset or (segment.end_offset == log_start_offset and not is_last):
            _delete(segment, f"the log starts at offset {log_start_offset}")
        else:
            kept.append(segment)
    return kept


def _producers(path: Path, segments: list[Segment], end_offset: int) -> Producers:
    """The last snapshot, and the batches written after it.

    Of no use is a snapshot from beyond the log's end, or one after which batches were deleted: it would have
    a producer repeat what nobody remembers. One that is not known at all may go on as it likes.
    """
    snapshot = read_note(path / PRODUCERS) or {"offset": 0, "producers": []}
    oldest = segments[0].base_offset if segments else end_offset
    if not oldest <= snapshot["offset"] <= end_offset:
        (path / PRODUCERS).unlink(missing_ok=True)
        snapshot = {"offset": oldest, "producers": []}
    producers = Producers.from_json(snapshot["producers"])
    for segment in segments:
        for _, header in segment.headers(segment.position_of(snapshot["offset"])):
            producers.replay(header)
    return producers
