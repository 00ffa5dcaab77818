"""The metadata image: the topics of the cluster at one moment, as a value.

`consumer` groups assign on the coordinator, so the coordinator must know topics. The runner of a shard makes an image
and hands it in (`Shard.metadata_changed`); the next image is another value. Rule A23.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from equipoise.wire.xxh3 import xxh3_64

TopicPartition = tuple[bytes, int]  # topic id and number: a topic that is made anew is another one
Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Partitions = frozenset()
_HASH_VERSION = b"\x00"
_HASH_BYTES = 8
_LARGE = 1_000  # partitions of a topic
_INT = Struct("<i").pack


class TopicImage(NamedTuple):
    """One topic. `racks` has the racks of each partition's replicas; empty: not known."""

    topic_id: bytes
    name: str
    partitions: int
    racks: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """All topics, by name and by id. `version` grows with every image."""

    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    version: int = 0
    _names: Mapping[bytes, str] = field(default_factory=dict)

    def topic(self, name: str) -> TopicImage | None:
        """The topic of that name, if it exists."""
        return self.topics.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name behind an id; None: the topic is gone, or was never here."""
        return self._names.get(topic_id)

    def by_id(self, topic_id: bytes) -> TopicImage | None:
        """The topic with that id, if it exists."""
        name = self._names.get(topic_id)
        return None if name is None else self.topics[name]

    def ids_of(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those topics that exist. Rule A12.3."""
        found = (self.topics.get(name) for name in names)
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def with_changes(self, put: Iterable[TopicImage], deleted: Iterable[str] = ()) -> MetadataImage:
        """The next image: topics created or changed, and topics gone."""
        topics, names = dict(self.topics), dict(self._names)
        for name in deleted:
            if (gone := topics.pop(name, None)) is not None:
                names.pop(gone.topic_id, None)
        for topic in put:
            if (old := topics.get(topic.name)) is not None:
                names.pop(old.topic_id, None)
            topics[topic.name] = topic
            names[topic.topic_id] = topic.name
        return MetadataImage(topics, self.version + 1, names)

    def prepare(self, names: Iterable[str]) -> None:
        """Hashes large topics before a group asks for it: tens of thousands of partitions take milliseconds."""
        for name in names:
            topic = self.topics.get(name)
            if topic is not None and topic.partitions >= _LARGE:
                _topic_hash(topic)

    def hash_of(self, names: Iterable[str]) -> int:
        """What groups compare to learn that a topic of theirs has changed; 0: none of the topics exists (KIP-1101).

        It is Kafka's own, so that a group whose log moves between the brokers is not bumped. Rule A13.3.
        Kafka: Utils.computeGroupHash.
        """
        found = [self.topics[name] for name in sorted(set(names)) if name in self.topics]
        hashes = b"".join(_topic_hash(topic).to_bytes(_HASH_BYTES, "little") for topic in found)
        return _signed(xxh3_64(hashes)) if found else 0


@lru_cache(maxsize=4096)
def _topic_hash(topic: TopicImage) -> int:
    """Kafka: Utils.computeTopicHash."""
    parts = [_HASH_VERSION, topic.topic_id[7::-1], topic.topic_id[:7:-1], _text(topic.name), _INT(topic.partitions)]
    if not topic.racks:
        parts += map(_INT, range(topic.partitions))
    for number, racks in enumerate(topic.racks):
        parts.append(_INT(number))
        parts += (_INT(len(rack)) + _text(rack) for rack in sorted(racks))
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    """A string as the hash takes it: UTF-16, then its length."""
    encoded = text.encode("utf-16-le")
    return encoded + _INT(len(encoded) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


EMPTY_IMAGE = MetadataImage()
