"""The broker's data directory: its lock, its topics, and a sub-directory per partition."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

from equipoise.log.config import LogConfig
from equipoise.log.partition import Flush, PartitionLog
from equipoise.log.recovery.inventory import PARTITION, TOPICS, Inventory, TopicRecord, TopicRows, some
from equipoise.log.recovery.partition_registry import PartitionRegistry, RegisteredPartition
from equipoise.log.recovery.recovery import recover
from equipoise.log.storage.disk import (
    DELETED,
    Disk,
    PartitionFiles,
    dump_json,
    put_aside,
    read_json,
    write_dumped,
)
from equipoise.log.storage.faults import remedy
from equipoise.log.storage.memory import MemoryFiles
from equipoise.random_uuid import random_uuid
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.uuids import short

_log = logging.getLogger(__name__)
_FORMAT = 1
GroupConfigs = dict[str, dict[str, str]]  # by group
Placements = dict[str, list[list[Any]]]  # by topic id in hex: a row for each partition
LOCK = ".lock"
META = "meta.json"
_PRODUCER_IDS = "producer-ids.json"
_PRODUCER_IDS_A_BLOCK = 1000  # as in Kafka; a crash loses the rest of a block
_GROUPS = "groups.json"
_NO_GROUPS = "or remove it: all groups then have the broker's settings"
_PLACEMENTS = "placements.json"
_NO_PLACEMENTS = "or remove it: leaders are placed anew, and their epochs begin again at 0"
_NO_IDS = "or remove it: ids then begin above those in the logs"


def parse_meta(content: dict[str, Any]) -> tuple[int, int, str]:
    """Format, node id and cluster id of meta.json."""
    return int(content["format"]), int(content["node_id"]), str(content["cluster_id"])


def _parse_groups(content: dict[str, Any]) -> GroupConfigs:
    return {
        str(group): {str(name): str(value) for name, value in own.items()} for group, own in content["configs"].items()
    }


def _parse_placements(content: dict[str, Any]) -> Placements:
    return {str(topic_id): [list(row) for row in rows] for topic_id, rows in content["placements"].items()}


class DataDirectory:
    """A directory on disk, owned by one process at a time. Every change is durable when the call returns."""

    volatile = False

    def __init__(self, path: Path, *, node_id: int = 1, flush: Flush = "commit", open_files: int = 1 << 20) -> None:
        self.path = path
        self._flush = flush
        self._disk = Disk(open_files, durable=flush == "commit")
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        self._remover: Thread | None = None
        self._rows = TopicRows()
        self._lock = _lock(path)
        try:
            found = Inventory(path)
            self.cluster_id = self._read_meta(node_id, is_new=not found.topics)
            self._by_name, self._deleting = {topic.name: topic for topic in found.topics}, found.deleting
            self._next_id = read_json(path / _PRODUCER_IDS, lambda content: int(content["next"]), _NO_IDS)
            self._ids_end = self._next_id
            self._group_configs = read_json(path / _GROUPS, _parse_groups, _NO_GROUPS) or {}
            self._placements = read_json(path / _PLACEMENTS, _parse_placements, _NO_PLACEMENTS) or {}
            self._orphans = self._look_round(found)
            self._hide(frozenset(self._deleting))
            self._start_remover()
        except UsageError:
            os.close(self._lock)
            raise
        except OSError as error:
            os.close(self._lock)
            raise _unusable(path, error) from error

    def _read_meta(self, node_id: int, *, is_new: bool) -> str:
        """Returns the cluster's id. Refuses the directory of another node or of another format."""
        found = read_json(self.path / META, parse_meta, "or remove it: the cluster then has a new id")
        if found is None:
            found = _FORMAT, node_id, short(random_uuid())
            if not is_new:
                _log.error("%s is missing: the cluster has a new id, %s", self.path / META, found[2])
            meta = {"format": found[0], "cluster_id": found[2], "node_id": found[1]}
            write_dumped(self.path / META, dump_json(meta), durable=True)
        written_format, owner, cluster_id = found
        if written_format != _FORMAT:
            raise UsageError(
                f"{self.path} has format {written_format}, this version reads {_FORMAT}: "
                "use the version that wrote it, or choose another directory"
            )
        if owner != node_id:
            raise UsageError(
                f"{self.path} belongs to node {owner}, not {node_id}: "
                f"start with node.id={owner}, or choose another directory"
            )
        return cluster_id

    def _look_round(self, found: Inventory) -> set[str]:
        """Refuses to start if records are missing. Returns the names of directories that belong to no topic."""
        missing = [path.name for path in found.missing()]
        if missing:
            raise UsageError(
                f"{self.path}: the directories of {len(missing)} partitions with records are missing "
                f"({some(missing)}): restore them, or accept the loss by making them anew, empty (mkdir)"
            )
        orphans = [path.name for path in found.orphans()]
        if orphans:
            _log.error(
                "%s: %d directories with records belong to no topic (%s): they are left alone, and put aside when a "
                "topic needs the name. If topics.json is an old copy, restore the newest",
                self.path,
                len(orphans),
                some(orphans),
            )
        self._registry = PartitionRegistry(self.path, self._disk.faults)
        if found.topics:
            self._registry.begin(one for one in found.registered() if (self.path / one.name).is_dir())
        return set(orphans)

    def load_topics(self) -> list[TopicRecord]:
        """The topics that were saved last, before or after a start."""
        return list(self._by_name.values())

    def save_topics(self, topics: Sequence[TopicRecord]) -> None:
        """No record of a topic that is left out may come back, even if a crash prevents `delete_topics`."""
        by_name = {topic.name: topic for topic in topics}
        deleting = (self._deleting | self._by_name.keys()) - by_name.keys()
        self._write(TOPICS, self._rows.dump(by_name, deleting))
        self._by_name, self._deleting = by_name, deleting

    def load_group_configs(self) -> GroupConfigs:
        """The configs of groups that were saved last."""
        return self._group_configs

    def save_group_configs(self, configs: GroupConfigs) -> None:
        """Replaces all of them."""
        self._write(_GROUPS, dump_json({"configs": configs}))
        self._group_configs = configs

    def load_placements(self) -> Placements:
        """The leaders of partitions that were saved last; none, where one broker has always led all."""
        return self._placements

    def save_placements(self, rows: Placements) -> None:
        """Replaces all of them."""
        self._write(_PLACEMENTS, dump_json({"placements": rows}))
        self._placements = rows

    def _write(self, name: str, dumped: str) -> None:
        try:
            write_dumped(self.path / name, dumped, durable=True)
        except OSError as error:
            self._disk.faults.report(error, self.path / name)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} not written: {error}; {remedy(error)}") from error

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        """Opens the partition's log, and recovers it if needed. A new log takes no room on disk before its first
        record."""
        name = f"{topic}-{partition}"
        if not PARTITION.fullmatch(name):
            raise UsageError(f"{topic!r} is no topic name: 1 to 249 of letters, digits, '.', '_' and '-'")
        files = PartitionFiles(self.path / name, self._disk, partial(self._register, self._by_name.get(topic), name))
        try:
            if name in self._orphans:
                self._orphans.discard(name)
                _log.error("%s: records of another topic of this name are kept in %s", name, put_aside(files.path))
            log = PartitionLog(name, config, files, recover(files, config), flush=self._flush)
        except OSError as error:
            raise _unusable(files.path, error) from error
        self._logs[topic, partition] = log
        return log

    def _register(self, topic: TopicRecord | None, name: str) -> None:
        """Called on any thread, when the partition's directory is durable. By then another topic may have the name."""
        now = self._by_name.get(topic.name) if topic is not None else None
        if topic is not None and now is not None and now.topic_id == topic.topic_id:
            self._registry.add(RegisteredPartition(now.topic_id.hex(), name, str(now.partitions)))

    def delete_topics(self, topics: Collection[str]) -> None:
        """Hides the partitions at once; a thread then removes their files, however large."""
        for key in [key for key in self._logs if key[0] in topics]:
            self._logs.pop(key).delete()
        self._hide(topics)
        self._start_remover()

    def _hide(self, topics: Collection[str]) -> None:
        for path in list(self.path.iterdir()):
            found = PARTITION.fullmatch(path.name)
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
        """An id that was never given out before, not even by a process that crashed."""
        if self._next_id is None:
            self._next_id = self._ids_end = self._unused_producer_id()
        if self._next_id == self._ids_end:
            end = self._ids_end + _PRODUCER_IDS_A_BLOCK
            self._write(_PRODUCER_IDS, dump_json({"next": end}))
            self._ids_end = end
        self._next_id += 1
        return self._next_id - 1

    def _unused_producer_id(self) -> int:
        """Without the file, the next id is above all ids in the logs: otherwise two producers would look like one."""
        highest = max((log.producers.highest_id() for log in self._logs.values()), default=-1)
        return (highest // _PRODUCER_IDS_A_BLOCK + 1) * _PRODUCER_IDS_A_BLOCK

    def close(self) -> None:
        """Closes all logs and releases the directory."""
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
        self.cluster_id = short(random_uuid())
        self._producer_ids = count()

    def load_topics(self) -> list[TopicRecord]:
        """None: a broker in memory starts empty."""
        return []

    def save_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Topics live as long as the broker's own objects."""

    def load_group_configs(self) -> GroupConfigs:
        """None: a broker in memory starts empty."""
        return {}

    def save_group_configs(self, configs: GroupConfigs) -> None:
        """They live as long as the broker's own objects."""

    def load_placements(self) -> Placements:
        """None: a broker in memory starts empty."""
        return {}

    def save_placements(self, rows: Placements) -> None:
        """They live as long as the broker's own objects."""

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        """A new and empty log, even if there was one under the same name."""
        return PartitionLog(f"{topic}-{partition}", config, MemoryFiles())

    def delete_topics(self, topics: Collection[str]) -> None:
        """The last reference to a log frees it."""

    def next_producer_id(self) -> int:
        """Counts from 0: ids are unique in one run, and no record outlives it."""
        return next(self._producer_ids)

    def close(self) -> None:
        """Holds neither a lock nor files."""


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot use {path}: {error.strerror or error}; mend it, or choose another directory")


def is_locked(path: Path) -> bool:
    """Whether a process owns the directory now."""
    try:
        os.close(_lock(path))
    except UsageError:
        return True
    return False


def _lock(path: Path) -> int:
    """Returns a descriptor that keeps other processes out until it is closed, or until this process ends."""
    try:
        import fcntl
    except ImportError:
        raise UsageError("this system cannot lock a data directory: keep the data in memory") from None
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
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
