"""The broker's data directory: who owns it, which topics there are, and a sub-directory per partition."""

from __future__ import annotations

import logging
import os
import re
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Collection, Sequence
from itertools import count
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from uuid import uuid4

from equipoise.log.config import LogConfig
from equipoise.log.disk import DELETED, Disk, PartitionFiles, read_json, write_json
from equipoise.log.faults import remedy
from equipoise.log.memory import MemoryFiles
from equipoise.log.partition import Flush, PartitionLog
from equipoise.log.recovery import recover
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

_log = logging.getLogger(__name__)
_FORMAT = 1
_LOCK = ".lock"
_META = "meta.json"
_TOPICS = "topics.json"
_PRODUCER_IDS = "producer-ids.json"
_PRODUCER_IDS_A_BLOCK = 1000  # as in Kafka; a crash loses the rest of a block
_PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]+)")


class TopicRecord(NamedTuple):
    """What is kept of a topic beside its records."""

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]


def _new_cluster_id() -> str:
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


class DataDirectory:
    """A directory on disk, owned by one process at a time. Everything it is told is durable when it returns."""

    volatile = False

    def __init__(self, path: Path, *, node_id: int = 1, flush: Flush = "commit", open_files: int = 1 << 20) -> None:
        self.path = path
        self._flush = flush
        self._disk = Disk(open_files, durable=flush == "commit")
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._remover: Thread | None = None
        self._lock = _lock(path)
        try:
            self.cluster_id = self._read_meta(node_id)
            self._topics, self._deleting = self._read_topics()
            self._next_id: int = (read_json(path / _PRODUCER_IDS) or {"next": 0})["next"]
            self._ids_end = self._next_id
            self._hide(frozenset(self._deleting))
            self._start_remover()
        except UsageError:
            os.close(self._lock)
            raise
        except OSError as error:
            os.close(self._lock)
            raise _unusable(path, error) from error

    def _read_meta(self, node_id: int) -> str:
        """The cluster's id. Refuses the directory of another node or of another format."""
        found = read_json(self.path / _META)
        if found is None:
            found = {"format": _FORMAT, "cluster_id": _new_cluster_id(), "node_id": node_id}
            write_json(self.path / _META, found, durable=True)
        if found["format"] != _FORMAT:
            raise UsageError(
                f"{self.path} has format {found['format']}, this version reads {_FORMAT}: "
                "use the version that wrote it, or choose another directory"
            )
        if found["node_id"] != node_id:
            raise UsageError(
                f"{self.path} belongs to node {found['node_id']}, not {node_id}: "
                f"start with node.id={found['node_id']}, or choose another directory"
            )
        return str(found["cluster_id"])

    def _read_topics(self) -> tuple[list[TopicRecord], set[str]]:
        found = read_json(self.path / _TOPICS) or {"topics": [], "deleting": []}
        topics = [TopicRecord(name, bytes.fromhex(id_), *rest) for name, id_, *rest in found["topics"]]
        return topics, set(found["deleting"])

    def load_topics(self) -> list[TopicRecord]:
        return list(self._topics)

    def save_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Of a topic that is left out no record may come back, even if a crash forestalls `delete_topics`."""
        names = {topic.name for topic in topics}
        deleting = (self._deleting | {topic.name for topic in self._topics}) - names
        rows = [[name, id_.hex(), *rest] for name, id_, *rest in topics]
        self._write(_TOPICS, {"topics": rows, "deleting": sorted(deleting)})
        self._topics, self._deleting = list(topics), deleting

    def _write(self, name: str, content: object) -> None:
        try:
            write_json(self.path / name, content, durable=True)
        except OSError as error:
            self._disk.faults.report(error, self.path / name)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} not written: {error}; {remedy(error)}") from error

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        """The partition's log, recovered if need be. A new one takes no room on disk before its first record."""
        name = f"{topic}-{partition}"
        if not _PARTITION.fullmatch(name):
            raise UsageError(f"{topic!r} is no topic name: 1 to 249 of letters, digits, '.', '_' and '-'")
        files = PartitionFiles(self.path / name, self._disk)
        try:
            log = PartitionLog(name, config, files, *recover(files, config), flush=self._flush)
        except OSError as error:
            raise _unusable(files.path, error) from error
        self._logs[topic, partition] = log
        return log

    def delete_topics(self, topics: Collection[str]) -> None:
        """Takes the partitions out of sight at once; a thread then removes them, however big they are."""
        for key in [key for key in self._logs if key[0] in topics]:
            self._logs.pop(key).delete()
        self._hide(topics)
        self._start_remover()

    def _hide(self, topics: Collection[str]) -> None:
        for path in list(self.path.iterdir()):
            found = _PARTITION.fullmatch(path.name)
            if found and found["topic"] in topics:
                PartitionFiles(path).delete()
        self._deleting.difference_update(topics)

    def _start_remover(self) -> None:
        hidden = list(self.path.glob("*" + DELETED))
        if hidden:
            remover = Thread(target=_remove, args=(hidden,), name="equipoise-remover", daemon=True)
            try:
                remover.start()
                self._remover = remover
            except (RuntimeError, MemoryError) as error:
                _log.warning("%s: deleted topics keep their room until the next start: %s", self.path, error)

    def next_producer_id(self) -> int:
        """An id never given before, not even by a process that crashed."""
        if self._next_id == self._ids_end:
            end = self._ids_end + _PRODUCER_IDS_A_BLOCK
            self._write(_PRODUCER_IDS, {"next": end})
            self._ids_end = end
        self._next_id += 1
        return self._next_id - 1

    def close(self) -> None:
        """Closes all logs and gives the directory free."""
        try:
            for log in self._logs.values():
                log.close()
        finally:
            self._logs.clear()
            if self._remover is not None:
                self._remover.join()
            os.close(self._lock)


class MemoryDirectory:
    """The same without a disk: gone with the process."""

    volatile = True
    path = None

    def __init__(self) -> None:
        self.cluster_id = _new_cluster_id()
        self._producer_ids = count()

    def load_topics(self) -> list[TopicRecord]:
        return []

    def save_topics(self, topics: Sequence[TopicRecord]) -> None:
        pass

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        return PartitionLog(f"{topic}-{partition}", config, MemoryFiles())

    def delete_topics(self, topics: Collection[str]) -> None:
        pass

    def next_producer_id(self) -> int:
        return next(self._producer_ids)

    def close(self) -> None:
        pass


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot use {path}: {error.strerror or error}; mend it, or choose another directory")


def _lock(path: Path) -> int:
    """A descriptor that keeps other processes out until it is closed, or until this process ends."""
    try:
        import fcntl
    except ImportError:
        raise UsageError("this system cannot lock a data directory: keep the data in memory") from None
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 20).decode(errors="replace") or "unknown"
        os.close(descriptor)
        raise UsageError(
            f"{path} is in use by process {holder}: stop that process, or choose another directory"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
