"""The metadata image: the topics of the cluster at one moment, as a value.

`consumer` groups assign on the coordinator, so the coordinator must know topics. The runner of a shard makes an image
and hands it in (`Shard.metadata_changed`); the next image is another value. Rule A23.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

TopicPartition = tuple[bytes, int]  # topic id and number: a topic that is made anew is another one
Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Partitions = frozenset()
_HASH_VERSION = b"\x01"
_HASH_BYTES = 8


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

    def hash_of(self, names: Iterable[str]) -> int:
        """What groups compare to learn that a topic of theirs has changed; 0: none of the topics exists (KIP-1101).

        It is compared with itself only, so it need not be Kafka's. Rule A13.3. Kafka: Utils.computeGroupHash.
        """
        found = sorted(topic for name in names if (topic := self.topics.get(name)) is not None)
        if not found:
            return 0
        whole = blake2b(_HASH_VERSION, digest_size=_HASH_BYTES)
        for topic in found:
            whole.update(_topic_hash(topic))
        return int.from_bytes(whole.digest(), "big", signed=True)


@lru_cache(maxsize=4096)
def _topic_hash(topic: TopicImage) -> bytes:
    """Kafka: Utils.computeTopicHash."""
    name = topic.name.encode()
    one = blake2b(topic.topic_id, digest_size=_HASH_BYTES)
    one.update(len(name).to_bytes(4, "big") + name + topic.partitions.to_bytes(4, "big"))
    for number, racks in enumerate(topic.racks):
        one.update(number.to_bytes(4, "big"))
        for rack in sorted(racks):
            encoded = rack.encode()
            one.update(len(encoded).to_bytes(4, "big") + encoded)
    return one.digest()


EMPTY_IMAGE = MetadataImage()
