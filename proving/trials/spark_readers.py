"""What queries of Spark have read, as their sinks have it: files, by Spark's list of those that count, or a topic."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

from confluent_kafka import Consumer, Message, TopicPartition

from proving.trials.accounts import Read
from proving.trials.stage import Reader
from proving.trials.writing import end_offset

_MANY = 10_000
_SOON_S = 0.05
_PATIENCE_S = 60.0


def monotonic(seconds: float) -> float:
    """The machine's monotonic clock at this moment of the other."""
    return seconds - (time.time() - time.monotonic())


class Files(Reader):
    """Of all queries whose directories match. Files that no list names are left of tasks that were killed."""

    def __init__(self, name: str, home: Path, pattern: str) -> None:
        super().__init__(name)
        self._home, self._pattern = home, pattern
        self._reads: list[Read] = []
        self._lists: set[Path] = set()
        self._files: set[str] = set()

    def reads(self) -> list[Read]:
        found = [one for one in self._home.glob(f"{self._pattern}/_spark_metadata/*") if one.name[0].isdecimal()]
        for listed in sorted(set(found) - self._lists, key=lambda one: one.stat().st_mtime_ns):
            self._lists.add(listed)
            at = monotonic(listed.stat().st_mtime)
            for line in listed.read_text().splitlines()[1:]:  # the first is the version
                self._add(json.loads(line)["path"], at)
        return self._reads

    def _add(self, url: str, at: float) -> None:
        """Every tenth list has all files so far in it."""
        if url in self._files:
            return
        self._files.add(url)
        rows = [json.loads(line) for line in Path(unquote(urlparse(url).path)).read_text().splitlines()]
        self._reads += [Read(at, row["partition"], row["offset"]) for row in rows]


class Topic(Reader):
    """What a sink has written to a topic. When it was read is when it was written there, by its timestamp."""

    def __init__(self, name: str, bootstrap_servers: str, topic: str, partitions: int) -> None:
        super().__init__(name)
        self._places = [TopicPartition(topic, one, 0) for one in range(partitions)]
        self._reads: list[Read] = []
        self._has_ended = False
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "nobody", "enable.auto.commit": False}
        quick = {"socket.timeout.ms": 4000, "topic.metadata.refresh.interval.ms": 1000, "log_level": 0}
        self._consumer = Consumer({**settings, **quick, "auto.offset.reset": "earliest"})
        self._consumer.assign(self._places)

    def reads(self) -> list[Read]:
        for message in [] if self._has_ended else self._consumer.consume(_MANY, _SOON_S):
            if message.error() is None:
                self._reads.append(_read(message))
        return self._reads

    def end(self) -> None:
        """What the sink has written last may be something that was there before."""
        ends = [end_offset(self._consumer, one) for one in self._places]
        end = time.monotonic() + _PATIENCE_S
        while len(self.reads()) < sum(ends) and time.monotonic() < end:
            pass
        self._has_ended = True
        self._consumer.close()


def _read(message: Message) -> Read:
    partition, _, offset = (message.value() or b"").partition(b":")
    return Read(monotonic(message.timestamp()[1] / 1000), int(partition), int(offset))
