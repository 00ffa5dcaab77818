"""The registry of partitions that have had a directory: a line for each, so that a lost directory is noticed.

A partition's directory is created with its first record. Without this list, a directory that was removed by mistake
would look like a partition without records. Each line carries its own checksum; a torn line does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from equipoise.log.storage.disk import fdatasync, open_file, sync_directory
from equipoise.log.storage.faults import Faults
from equipoise.wire.crc32c import crc32c

REGISTRY = "partitions.list"


class RegisteredPartition(NamedTuple):
    """One line of the registry."""

    topic_id: str
    name: str  # of the directory
    partitions: str  # that the topic has: groups are found by it


class PartitionRegistry:
    """Any thread may add to it."""

    def __init__(self, directory: Path, faults: Faults) -> None:
        self._path = directory / REGISTRY
        self._faults = faults
        self._lock = Lock()
        self._known: set[RegisteredPartition] = set()

    def begin(self, present: Iterable[RegisteredPartition]) -> None:
        """Writes down the current partitions, if they are new."""
        self._known = set(present)
        if self._known == read_registry(self._path.parent):
            return
        temporary = self._path.with_name(REGISTRY + ".tmp")
        with open(temporary, "wb") as file:
            file.write(b"".join(map(_line, sorted(self._known))))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        sync_directory(self._path.parent)

    def add(self, one: RegisteredPartition) -> None:
        """Durable when it returns. A fault is logged, and the next segment of the partition tries again."""
        with self._lock:
            if one in self._known:
                return
            try:
                self._append(one)
            except OSError as error:
                self._faults.report(error, self._path)
            else:
                self._known.add(one)

    def _append(self, one: RegisteredPartition) -> None:
        is_new = not self._path.exists()
        descriptor = open_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, _line(one))
            fdatasync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_directory(self._path.parent)


def read_registry(directory: Path) -> set[RegisteredPartition]:
    """Every line that is whole."""
    try:
        lines = (directory / REGISTRY).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    return {one for line in lines if (one := _registered(line.split())) is not None}


def _line(one: RegisteredPartition) -> bytes:
    """The empty line separates it from a torn line before it."""
    return f"\n{' '.join(one)} {_checksum(one)}\n".encode()


def _checksum(one: RegisteredPartition) -> str:
    return f"{crc32c(' '.join(one).encode()):08x}"


def _registered(words: list[str]) -> RegisteredPartition | None:
    if len(words) != 4:
        return None
    one = RegisteredPartition(*words[:3])
    return one if words[3] == _checksum(one) else None
