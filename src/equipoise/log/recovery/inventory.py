"""The declared contents of a data directory (topics.json, the registry), beside the actual contents."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from equipoise.log.recovery.partition_registry import RegisteredPartition, read_registry
from equipoise.log.storage.disk import dump_json, read_json
from equipoise.wire.errors import UsageError

TOPICS = "topics.json"
PARTITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]+)")
_NAMED = 10  # in one message


class TopicRecord(NamedTuple):
    """The stored facts of a topic beside its records."""

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]


class Inventory:
    """Reads the directory. Raises UsageError if topics.json cannot be used, or is missing beside records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directories = {one.name for one in path.iterdir() if PARTITION.fullmatch(one.name) and _has_files(one)}
        found = read_json(path / TOPICS, _parse_topics, self._remedy())
        if found is None and self.directories:
            raise UsageError(
                f"{path / TOPICS} is missing, and there are records of {len(self.directories)} partitions "
                f"({some(self.directories)}): restore it, {self._remedy()}"
            )
        self.topics, self.deleting = found or ([], set())

    def _remedy(self) -> str:
        return f"or make it anew from the directories: equipoise check --data {self.path} --rebuild-topics"

    def registered(self) -> Iterator[RegisteredPartition]:
        """The names of the partitions of all topics in the registry."""
        for topic in self.topics:
            for number in range(topic.partitions):
                yield RegisteredPartition(topic.topic_id.hex(), f"{topic.name}-{number}", str(topic.partitions))

    def missing(self) -> list[Path]:
        """Directories that hold records, or did, and are gone."""
        known = {one[:2] for one in read_registry(self.path)}
        names = [one.name for one in self.registered() if one[:2] in known] if known else []
        return [self.path / name for name in names if not (self.path / name).is_dir()]

    def orphans(self) -> list[Path]:
        """Directories with records that belong to no topic, except those being deleted."""
        expected = {one.name for one in self.registered()}
        names = sorted(self.directories - expected)
        return [self.path / name for name in names if topic_of(name) not in self.deleting]


def topic_of(name: str) -> str:
    """The topic in the name of a partition's directory."""
    return name.rpartition("-")[0]


def some(names: set[str] | list[str]) -> str:
    """The first few of them, in words."""
    rest = len(names) - _NAMED
    return ", ".join(sorted(names)[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _has_files(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())


class TopicRows:
    """topics.json as text. Unchanged rows are not encoded again: each change of a topic saves the rows of all."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[TopicRecord, str]] = {}

    def dump(self, topics: Mapping[str, TopicRecord], deleting: Collection[str] = ()) -> str:
        """The whole file's text. `deleting`: topics that are gone, whose directories may still be there."""
        known = self._known.get
        self._known = {
            name: row if (row := known(name)) is not None and row[0] is topic else (topic, _dump_topic(topic))
            for name, topic in topics.items()
        }
        rows = ",".join([text for _, text in self._known.values()])
        return f'{{"topics":[{rows}],"deleting":{dump_json(sorted(deleting))}}}'


def _dump_topic(topic: TopicRecord) -> str:
    return dump_json([topic.name, topic.topic_id.hex(), topic.partitions, topic.configs])


def _parse_topics(content: dict[str, Any]) -> tuple[list[TopicRecord], set[str]]:
    topics = [_topic(*row) for row in content["topics"]]
    return topics, {str(name) for name in content["deleting"]}


def _topic(name: str, topic_id: str, partitions: int, configs: dict[str, str]) -> TopicRecord:
    if not isinstance(partitions, int) or not isinstance(configs, dict):
        raise TypeError("a topic without partitions or configs")
    return TopicRecord(str(name), bytes.fromhex(topic_id), partitions, configs)
