"""The client's half of an incremental fetch session (KIP-227): only what has changed since the last fetch is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from equipoise.client.fetch.subscription_state import Tracked
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from equipoise.wire.schema import ZERO_UUID

_FULL = 0  # the epoch of a fetch that names everything and would like a session
_MAX_EPOCH = 2**31 - 1
FIRST_WITH_IDS = 13


Wire = tuple[int, int, int, bytes]


class Asked(NamedTuple):
    """What a fetch asks of one partition, and for which epoch of its reader. `number` is the fetch's own."""

    tracked: Tracked
    number: int
    epoch: int
    offset: int
    last_fetched_epoch: int
    leader_epoch: int
    topic_id: bytes

    @property
    def is_current(self) -> bool:
        """Whether nothing has happened to the partition since, and no new leader is known: what an old one sends may be
        lost by now."""
        tracked = self.tracked
        return (
            tracked.epoch == self.epoch
            and tracked.fetch_offset == self.offset
            and tracked.checked_epoch == self.leader_epoch
        )

    @property
    def wire(self) -> Wire:
        """What the broker is told."""
        return self.offset, self.last_fetched_epoch, self.leader_epoch, self.topic_id


Asking = Mapping[TopicPartition, Asked]


class FetchSession:
    """As the broker has it, if all goes well. `reset` when it does not: the next fetch names everything."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _FULL
        self._known: dict[TopicPartition, Wire] = {}

    def reset(self) -> None:
        self.session_id, self.epoch = 0, _FULL
        self._known = {}

    def fill(self, request: FetchRequest, asking: Asking, max_bytes: int) -> None:
        """Adds to the request what the broker does not know yet, and what it is to forget."""
        wire = {partition: asked.wire for partition, asked in asking.items()}
        changed = {key: asked for key, asked in asking.items() if self._known.get(key) != wire[key]}
        gone = {key: known for key, known in self._known.items() if key not in wire}
        replaced = {
            key: self._known[key] for key in changed if key in self._known and self._known[key][-1] != wire[key][-1]
        }
        request.session_id, request.session_epoch = self.session_id, self.epoch
        request.topics = topics_of(changed, max_bytes)
        request.forgotten_topics_data = _forgotten(gone | replaced)
        self._known = wire

    def answered(self, session_id: int) -> None:
        if not session_id:  # the broker has no room for a session
            self.reset()
            return
        self.session_id = session_id
        self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1


def topics_of(asking: Asking, max_bytes: int) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, number), asked in asking.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=asked.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                fetch_offset=asked.offset,
                current_leader_epoch=asked.leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Wire]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, number), (*_, topic_id) in gone.items():
        topic = topics.setdefault((name, topic_id), ForgottenTopic(topic=name, topic_id=topic_id, partitions=[]))
        topic.partitions.append(number)
    return list(topics.values())


def by_id(asking: Iterable[Asked]) -> bool:
    """Whether all topics have ids: those of clusters that were upgraded from old ones may have none."""
    return all(asked.topic_id != ZERO_UUID for asked in asking)
