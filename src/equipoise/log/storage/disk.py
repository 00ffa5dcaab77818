"""The log's files: segments read through mmap and written at their end, seals, checkpoints, fsync."""

from __future__ import annotations

import errno
import json
import logging
import mmap
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from equipoise.log.segment import LogSegment
from equipoise.log.storage.faults import Faults, ShortageError, shortage
from equipoise.log.storage.medium import (
    Checkpoint,
    Files,
    Replacement,
    Storage,
    SyncTask,
    TailNotCutError,
    UnsyncedSegments,
)
from equipoise.log.storage.open_files import OpenFiles
from equipoise.random_uuid import random_uuid
from equipoise.wire.crc32c import crc32c
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import Buffer

_log = logging.getLogger(__name__)
_COPY_UP_TO = 64 << 10  # below this a copy by pread costs less than the page faults of a map
_FORGET_AFTER = 16 << 20  # bytes read through a map: its pages stay in the system's cache, but count as ours no more
_COPY_INSTEAD = 64 << 20  # up to this a read that cannot have a map is copied
_PARTS_A_CALL = 512  # IOV_MAX is 1024 on Linux
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_UNTRACKED: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}  # else a map keeps a descriptor
fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync

PRODUCERS = "producers.json"
CHECKPOINT = "checkpoint.json"
DELETED = "~deleted"  # no topic's name can hold a tilde
ASIDE = ".damaged"
SEGMENTS = "[0-9]" * 20 + ".log"
_CHECKSUM = "crc32c"
dump_json = json.JSONEncoder(separators=(",", ":")).encode

Content = TypeVar("Content")


def as_it_is(content: dict[str, Any]) -> dict[str, Any]:
    """For `read_json`, where the content needs no parsing."""
    return content


class Disk:
    """Shared by all partitions of a data directory. `durable`: appends are synced before they are acknowledged."""

    def __init__(self, open_files: int = 1 << 20, *, durable: bool = True) -> None:
        self.open_files = OpenFiles(open_files)
        self.faults = Faults()
        self.durable = durable


class _Descriptor:
    """Closes itself with its last holder: a segment may be deleted while the flusher's thread syncs it."""

    def __init__(self, path: Path, flags: int) -> None:
        self.number = -1
        self.number = open_file(path, flags)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


def open_file(path: Path, flags: int) -> int:
    """A descriptor. Raises ShortageError where the system has none to lend."""
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise shortage(error) from None


class FileStorage(Storage):
    """One file, opened at first use and created by the first append.

    With a `disk` it may be closed between any two uses, in favour of another file.
    """

    def __init__(self, path: Path, size: int = 0, disk: Disk | None = None) -> None:
        self.path = path
        self.size = size
        self.disk = disk
        self.created = False  # since its directory was last synced
        self.used = False
        self.unsynced = False  # has bytes that no sync was asked for yet
        self.sync_error: OSError | None = None
        self.descriptor: _Descriptor | None = None
        self._is_read_only = False
        self._map: mmap.mmap | None = None
        self._read_through_map = 0

    def fileno(self) -> int:
        """The descriptor, opened where need be."""
        self.used = True
        if self.descriptor is None:
            self._open()
            assert self.descriptor is not None
        return self.descriptor.number

    def _open(self) -> None:
        try:
            self.descriptor = self._opened()
        except ShortageError:
            if self.disk is None or not self.disk.open_files.make_room():
                raise
            self.descriptor = self._opened()
        if self.disk is not None:
            self.disk.open_files.opened(self)
            if self.disk.faults.any:
                self.disk.faults.opened(self.path)

    def _opened(self) -> _Descriptor:
        self._is_read_only = False
        if self.size == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            found = _Descriptor(self.path, os.O_RDWR | os.O_CREAT)
            self.created = True
            return found
        try:
            return _Descriptor(self.path, os.O_RDWR)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            self._is_read_only = True  # what was written can be read all the same
            return _Descriptor(self.path, os.O_RDONLY)

    def append(self, parts: Sequence[Buffer]) -> None:
        if self._is_read_only:
            self.close()  # it may be writable again
        fd = self.fileno()
        if self._is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.path))
        try:
            end = _write_at(fd, self.size, parts)
        except OSError:
            self._cut_tail(fd)
            raise
        self.size = end
        self.unsynced = self.disk is not None and self.disk.durable

    def _cut_tail(self, fd: int) -> None:
        try:
            os.ftruncate(fd, self.size)
        except OSError as error:
            raise TailNotCutError(error.errno, error.strerror) from error

    def truncate(self, size: int) -> None:
        """Cuts the file."""
        os.ftruncate(self.fileno(), size)
        self.size = size

    def peek(self, position: int, length: int) -> Buffer:
        return self._copy(position, min(length, self.size - position))

    def _copy(self, position: int, length: int) -> bytes:
        data = os.pread(self.fileno(), length, position)
        if len(data) < length:
            raise self._too_short()
        return data

    def views(self, start: int, end: int) -> list[memoryview]:
        if end - start <= _COPY_UP_TO:
            return [memoryview(self._copy(start, end - start))]
        try:
            found = self._mapped(end)
        except OSError as error:
            if not isinstance(shortage(error), ShortageError) or end - start > _COPY_INSTEAD:
                raise shortage(error) from None
            return [memoryview(self._copy(start, end - start))]
        self._read_through_map += end - start
        if self._read_through_map >= _FORGET_AFTER and hasattr(mmap, "MADV_DONTNEED"):
            self._read_through_map = 0
            found.madvise(mmap.MADV_DONTNEED)
        return [memoryview(found)[start:end]]

    def _mapped(self, end: int) -> mmap.mmap:
        """The file's map, renewed when the file has outgrown it. A map lives as long as a view of it."""
        if self._map is None or len(self._map) < end:
            try:
                self._map = mmap.mmap(self.fileno(), self.size, prot=mmap.PROT_READ, **_UNTRACKED)
            except ValueError:
                raise self._too_short() from None
        return self._map

    def _too_short(self) -> OSError:
        return OSError(errno.EIO, f"the file has lost bytes, {self.size} were written", str(self.path))

    def sync(self) -> None:
        fdatasync(self.fileno())

    def settle(self) -> bool:
        """Makes the bytes durable before another file takes the place of this one."""
        if self.unsynced and self.descriptor is not None and self.sync_error is None:
            try:
                fdatasync(self.descriptor.number)
                self.unsynced = False
            except OSError as error:
                self.sync_error = error
        return self.sync_error is None

    def close(self) -> None:
        self._map = None
        self.descriptor = None
        if self.disk is not None:
            self.disk.open_files.closed(self)

    def delete(self) -> None:
        """The seal goes last: without its segment it means nothing, and recovery removes it."""
        self.close()
        self.path.unlink(missing_ok=True)
        seal_path(self.path).unlink(missing_ok=True)


def _write_at(fd: int, position: int, parts: Sequence[Buffer]) -> int:
    """Writes all parts, and returns where they end. The system may take less than it is given."""
    for first in range(0, len(parts), _PARTS_A_CALL):
        some = parts[first : first + _PARTS_A_CALL]
        end = position + sum(map(len, some))
        position += os.pwritev(fd, some, position)
        while position < end:
            rest = b"".join(some)
            position += os.pwrite(fd, memoryview(rest)[position - end :], position)
    return position


def seal_path(log_path: Path) -> Path:
    """Where the seal of a segment file stands."""
    return log_path.with_suffix(".seal")


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    fd = open_file(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_closed_file(path: Path) -> None:
    """A file that is gone needs no sync."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fdatasync(fd)
    finally:
        os.close(fd)


def put_aside(path: Path) -> Path:
    """Renames a file or directory that is in the way, to a name that the broker does not read."""
    target = path.with_name(path.name + ASIDE)
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.{number}{ASIDE}")
    path.rename(target)
    sync_directory(path.parent)
    return target


def write_json(path: Path, content: Mapping[str, object], *, durable: bool) -> None:
    """Replaces a file as a whole. A file that can be rebuilt need not be durable: a torn file is noticed."""
    write_dumped(path, dump_json(content), durable=durable)


def write_dumped(path: Path, dumped: str, *, durable: bool) -> None:
    """`write_json` of an object that is already dumped. The checksum becomes its last member."""
    temporary = path.with_name(path.name + ".tmp")
    stated = dump_json({_CHECKSUM: crc32c(dumped.encode())})
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{dumped[:-1]},{stated[1:]}")
        file.flush()
        if durable:
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_directory(path.parent)


def write_note(path: Path, content: Mapping[str, object], faults: Faults) -> None:
    """Writes a file that only saves time at the next start."""
    try:
        write_json(path, content, durable=False)
    except OSError as error:
        faults.report(error, f"{path} not written, the next start will take longer")


def read_json(path: Path, parse: Callable[[dict[str, Any]], Content], remedy: str = "") -> Content | None:
    """Returns `parse` of a file's content, None if there is no file. Raises UsageError if it is damaged."""
    try:
        content = json.loads(path.read_bytes())
        stated = content.pop(_CHECKSUM, None)  # None: written before there were checksums, or by hand
        if stated not in (None, crc32c(dump_json(content).encode())):
            raise ValueError(f"its checksum is wrong; if it was edited by hand, remove {_CHECKSUM!r} from it")
        return parse(content)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        why = error if isinstance(error, ValueError) else "it is not what it should be"
        rest = remedy or "or move the directory away"
        raise UsageError(f"{path} is damaged ({why}): restore it, {rest}") from None


def read_note(path: Path, parse: Callable[[dict[str, Any]], Content]) -> Content | None:
    """Returns the content of a file that `write_note` wrote, None if it is missing or damaged."""
    try:
        return read_json(path, parse)
    except UsageError as error:
        _log.warning("not used, and made anew: %s", error)
        return None


class DiskSyncTask(SyncTask):
    """Syncs files, and the directories of new files; then writes the notes that make the next start quick.

    After a ShortageError `run` continues where it was. A failed fdatasync is never repeated: the second call may report
    success, though the system has dropped the bytes.
    """

    def __init__(self, files: PartitionFiles, work: UnsyncedSegments) -> None:
        end_offset, written, finished, snapshot = work
        self.end_offset = end_offset
        self.sealed = [(segment, segment.size) for segment in finished]
        self.notes: dict[Path, Mapping[str, object]] = {seal_path(_file_of(s.storage).path): s.seal() for s in finished}
        self._files = files
        self._to_sync: list[_Descriptor | Path] = []
        self._directories: set[Path] = set()
        self._registers = False
        if finished:
            self.notes[files.path / PRODUCERS] = {
                "offset": end_offset,
                "producers": snapshot.producers.to_json(),
                "unsealed_from": snapshot.unsealed_from,
                "aborted": list(snapshot.aborted),
            }
        for segment in written:
            self._add(_file_of(segment.storage))

    def _add(self, storage: FileStorage) -> None:
        if storage.sync_error is not None:
            raise storage.sync_error
        self._to_sync.append(storage.descriptor or storage.path)
        storage.unsynced = False
        if storage.created:
            self._registers = True
            storage.created = False
            self._directories |= {storage.path.parent, storage.path.parent.parent}

    @property
    def only_file(self) -> int | None:
        if len(self._to_sync) != 1 or self._directories or self._registers or self.notes:
            return None
        (one,) = self._to_sync
        return None if isinstance(one, Path) else one.number

    def run(self) -> None:
        while self._to_sync:
            one = self._to_sync[-1]
            _sync_closed_file(one) if isinstance(one, Path) else fdatasync(one.number)
            self._to_sync.pop()
        if self._files.deleted:  # a new topic of the same name must find nothing of it
            return
        for directory in list(self._directories):
            sync_directory(directory)
            self._directories.remove(directory)
        if self._registers:
            self._files.register()
        for path, content in self.notes.items():
            write_note(path, content, self._files.disk.faults)


def _file_of(storage: Storage) -> FileStorage:
    assert isinstance(storage, FileStorage)
    return storage


class PartitionFiles(Files):
    """The directory of one partition. The first append creates it."""

    volatile = False

    def __init__(self, path: Path, disk: Disk | None = None, register: Callable[[], None] = lambda: None) -> None:
        """`register` is called, on any thread, when the directory is durable."""
        self.path = path
        self.disk = disk or Disk()
        self.register = register
        self.deleted = False

    @property
    def faults(self) -> Faults:
        return self.disk.faults

    def storage(self, base_offset: int) -> FileStorage:
        return FileStorage(self.path / f"{base_offset:020d}.log", disk=self.disk)

    def cleaned_storage(self, base_offset: int) -> FileStorage:
        """Of no concern to `OpenFiles` until it is in place: another thread writes it."""
        path = self.path / f"{base_offset:020d}.log.cleaned"
        path.unlink(missing_ok=True)
        return FileStorage(path)

    def save(self, checkpoint: Checkpoint) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / CHECKPOINT, checkpoint._asdict(), durable=True)

    def replace(self, replacement: Replacement) -> None:
        old, new = replacement
        target, source = _file_of(old[0].storage), _file_of(new.storage)
        seal_path(target.path).unlink(missing_ok=True)
        source.path.replace(target.path)
        source.path = target.path
        target.close()
        self._forget(old[1:])
        write_note(seal_path(source.path), new.seal(), self.faults)
        new.sealed_size = new.size
        source.close()
        source.disk = self.disk

    def _forget(self, merged: Sequence[LogSegment]) -> None:
        """Removes segments that a renamed segment now contains. It waits until the rename is durable; recovery sees
        the overlap."""
        try:
            sync_directory(self.path)
            for segment in merged:
                segment.storage.delete()
        except OSError as error:
            _log.warning("%s: merged segments are left for the next start to remove: %s", self.path, error)

    def sync_task(self, work: UnsyncedSegments) -> DiskSyncTask:
        return DiskSyncTask(self, work)

    def forget_producers(self) -> None:
        (self.path / PRODUCERS).unlink(missing_ok=True)

    def make_room(self) -> None:
        self.disk.open_files.make_room()

    def delete(self) -> None:
        """Only renames: a big file takes long to remove, see `DataDirectory.delete_topics`."""
        self.deleted = True
        if self.path.exists():
            self.path.rename(self.path.with_name(random_uuid().hex() + DELETED))
