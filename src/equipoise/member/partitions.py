"""A partition of a topic, and sets of partitions as the payloads write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from equipoise.wire.consumer_protocol import Partitions
from equipoise.wire.text import printable


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Owned = frozenset[TopicPartition]
NOTHING: Owned = frozenset()


def by_topic(partitions: Iterable[TopicPartition]) -> Partitions:
    """Partitions as a payload lists them."""
    found: Partitions = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def flatten(partitions: Mapping[str, Sequence[int]]) -> Owned:
    """Partitions of a payload, one by one."""
    return frozenset(TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers)


def listed(partitions: Iterable[TopicPartition], limit: int = 8) -> str:
    """For messages: the first few, and how many more."""
    names = [printable(str(one)) for one in sorted(partitions)]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
