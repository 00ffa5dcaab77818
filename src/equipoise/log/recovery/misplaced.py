"""Segment files with exchanged names. A segment's first batch says where it belongs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from equipoise.log.storage.disk import SEGMENTS, seal_path, sync_directory
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import HEADER_SIZE, MAGIC, crc_of, read_header

_UNFINISHED, _READY = "misplaced.tmp", "misplaced"


def put_in_order(directory: Path, tell: Callable[[str], None], *, mend: bool) -> list[Path]:
    """Returns the segment files, each under the name of its contents. Raises UsageError if no names fit.

    No batch lies below its segment's name. A compacted segment may begin after its name, even after the names of
    segments that were merged into it and not yet removed. Only a batch that lies too low therefore starts the search
    for misplaced files.
    """
    if mend:
        _finish(directory)
    paths = sorted(directory.glob(SEGMENTS))
    ends = {path: int(after.stem) for path, after in pairwise(paths)}
    firsts = {path: first for path in paths if (first := _first_offset(path)) is not None}

    def fits(first: int, name: Path) -> bool:
        return int(name.stem) <= first and first < ends.get(name, first + 1)

    if all(int(path.stem) <= first for path, first in firsts.items()):
        return paths
    wrong = [path for path in firsts if not fits(firsts[path], path)]
    right = dict(zip(sorted(wrong, key=lambda path: firsts[path]), sorted(wrong), strict=True))
    if not all(fits(firsts[path], name) for path, name in right.items()):
        names = ", ".join(f"{path.name} holds offsets from {firsts[path]}" for path in wrong)
        raise UsageError(f"{directory}: segment files have wrong names: {names}; restore them from a backup")
    for path, name in right.items():
        tell(f"{path} holds offsets from {firsts[path]}: segment files were exchanged, it is {name.name} again")
    if mend:
        _rename(right)
    return paths


def _first_offset(path: Path) -> int | None:
    """None if the file does not begin with a good batch: then only its name is known."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        head = os.pread(descriptor, HEADER_SIZE, 0)
        if len(head) < HEADER_SIZE:
            return None
        header = read_header(head)
        if header.base_offset == int(path.stem):  # as it is but for compacted segments: no need to read more
            return header.base_offset
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= os.fstat(descriptor).st_size:
            return None
        batch = os.pread(descriptor, header.size, 0)
    finally:
        os.close(descriptor)
    return header.base_offset if crc_of(batch, 0, header.size) == header.crc else None


def _rename(right: dict[Path, Path]) -> None:
    """Links first, renames later: a crash at any moment leaves each file under at least one name, see `_finish`.

    Seals described the contents under these names, and are worthless now.
    """
    directory = next(iter(right)).parent
    beside = directory / _UNFINISHED
    beside.mkdir()
    for path, name in right.items():
        seal_path(path).unlink(missing_ok=True)
        os.link(path, beside / name.name)
    sync_directory(beside)
    beside.rename(directory / _READY)
    sync_directory(directory)
    _finish(directory)


def _finish(directory: Path) -> None:
    """Completes a renaming that a crash interrupted: finished steps are put in place, the others are undone."""
    shutil.rmtree(directory / _UNFINISHED, ignore_errors=True)
    ready = directory / _READY
    if ready.is_dir():
        for path in list(ready.iterdir()):
            path.replace(directory / path.name)
        sync_directory(directory)
        ready.rmdir()
