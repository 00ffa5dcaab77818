"""Finds damage in a data directory without changing it; rebuilds topics.json from the directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equipoise.log.config import LogConfig
from equipoise.log.recovery.inventory import PARTITION, TOPICS, Inventory, TopicRecord, TopicRows, some, topic_of
from equipoise.log.recovery.partition_registry import RegisteredPartition, read_registry
from equipoise.log.recovery.recovery import Recovery
from equipoise.log.storage.directory import META, is_locked, parse_meta
from equipoise.log.storage.disk import ASIDE, PartitionFiles, put_aside, read_json, write_dumped
from equipoise.random_uuid import random_uuid
from equipoise.wire.errors import UsageError

_OFFSETS = "__consumer_offsets"
_OFFSETS_PARTITIONS = 50  # the default of offsets.topic.num.partitions: a group's partition depends on it
_KEEP_ALL = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
}  # until an administrator sets them: nothing may expire unseen


def check(path: Path, tell: Callable[[str], None], *, deep: bool = False) -> int:
    """Reports each finding, and returns the number of partitions checked. `deep` reads every batch, whatever seals
    say."""
    if not path.is_dir():
        raise UsageError(f"{path} is no directory: name the one that a broker was started with")
    try:
        read_json(path / META, parse_meta, "or remove it: the cluster then has a new id")
        found = Inventory(path)
    except UsageError as error:
        tell(str(error))
        return 0
    for one in found.missing():
        tell(f"{one} is missing, and it held records: restore it, or make it anew, empty, to accept the loss")
    for one in found.orphans():
        tell(f"{one} holds records and belongs to no topic; if topics.json is an old copy, restore the newest")
    directories = [path / one.name for one in found.registered() if (path / one.name).is_dir()]
    for one in directories:
        _check_partition(one, tell, deep=deep)
    for one in sorted([*path.glob(f"*{ASIDE}"), *path.glob(f"*/*{ASIDE}")]):
        tell(f"{one} was put aside by a broker, whose log says why; remove it when it is of no use any more")
    return len(directories)


def _check_partition(path: Path, tell: Callable[[str], None], *, deep: bool) -> None:
    try:
        Recovery(PartitionFiles(path), LogConfig(), mend=False, deep=deep, tell=tell).run()
    except UsageError as error:
        tell(str(error))
    except OSError as error:
        tell(f"{path}: {error.strerror or error}")


def rebuild_topics(path: Path) -> list[TopicRecord]:
    """Writes a new topics.json from the partitions' directories. Raises UsageError if the old file can be used."""
    if is_locked(path):
        raise UsageError(f"{path} is in use: stop the broker first")
    try:
        Inventory(path)
    except UsageError:
        pass
    else:
        raise UsageError(f"{path / TOPICS} is in order: there is nothing to make anew")
    names = sorted(one.name for one in path.iterdir() if one.is_dir() and PARTITION.fullmatch(one.name))
    known = {topic_of(one.name): one for one in read_registry(path)}
    topics = [_rebuilt(topic, names, known.get(topic)) for topic in sorted({topic_of(name) for name in names})]
    if (path / TOPICS).exists():
        put_aside(path / TOPICS)
    write_dumped(path / TOPICS, TopicRows().dump({topic.name: topic for topic in topics}), durable=True)
    return topics


def _rebuilt(topic: str, names: list[str], known: RegisteredPartition | None) -> TopicRecord:
    """A topic from the registry. Without an entry there the id is new, and only partitions that had a record are
    known."""
    count = 1 + max(int(name.rpartition("-")[2]) for name in names if topic_of(name) == topic)
    if known is not None:
        count = max(count, int(known.partitions))
    elif topic == _OFFSETS:
        count = max(count, _OFFSETS_PARTITIONS)
    configs = {"cleanup.policy": "compact"} if topic == _OFFSETS else _KEEP_ALL
    return TopicRecord(topic, bytes.fromhex(known.topic_id) if known else random_uuid(), count, configs)


def describe(topics: list[TopicRecord]) -> str:
    """Topics and their partition counts, in words."""
    return some([f"{topic.name} ({topic.partitions} partitions)" for topic in topics])
