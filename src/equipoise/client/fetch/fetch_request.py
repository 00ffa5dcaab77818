"""Builds Fetch requests and reads Fetch answers, for every reader: the consumer, Spark's executors and Spark's driver.

Pure: nothing here touches a socket or a clock. wire/apis/k01_fetch.py has the fields, fetch_session.py the sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from equipoise.client.fetch.completed_fetch import CompletedFetch
from equipoise.client.metadata.leader_epochs import NO_EPOCH, LogPosition
from equipoise.client.metadata.list_offsets import PASSING
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k00_produce import LeaderIdAndEpoch
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import ZERO_UUID

NEWEST_WITH_NAMES = 12  # the newest version that has topics by name (KIP-516)
_NOT_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class PartitionFetch(NamedTuple):
    """What a Fetch asks of one partition (FetchRequest.PartitionData)."""

    offset: int
    max_bytes: int
    leader_epoch: int = NO_EPOCH  # by our metadata: a broker of another epoch refuses (KIP-320)
    last_fetched_epoch: int = NO_EPOCH  # of the record before `offset`: the broker finds truncation by it
    topic_id: bytes = ZERO_UUID


Fetches = Mapping[TopicPartition, PartitionFetch]


class HasFetch(Protocol):
    """A reader's own note on a partition that it asks for. It gets the note back with the answer."""

    @property
    def fetch(self) -> PartitionFetch:
        """What goes into the request."""


Asked = TypeVar("Asked", bound=HasFetch)


class FetchLimits(NamedTuple):
    """What a Fetch asks of its answer as a whole, by the names of FetchRequest."""

    max_wait_ms: int
    max_bytes: int
    isolation_level: int
    min_bytes: int = 1
    rack_id: str = ""  # given, the leader may name a replica that is nearer (KIP-392)


# -- requests


def fetch_request(limits: FetchLimits, fetches: Fetches) -> FetchRequest:
    """A Fetch outside of any session."""
    return FetchRequest(topics=fetch_topics(fetches), **limits._asdict())


def fetch_topics(fetches: Fetches) -> list[FetchTopic]:
    """The partitions by topic, in their order: a broker fills its answer in the order of the request."""
    topics: dict[str, FetchTopic] = {}
    for (name, number), fetch in fetches.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=fetch.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=number,
                fetch_offset=fetch.offset,
                current_leader_epoch=fetch.leader_epoch,
                last_fetched_epoch=fetch.last_fetched_epoch,
                partition_max_bytes=fetch.max_bytes,
            )
        )
    return list(topics.values())


def newest_version(fetches: Iterable[PartitionFetch]) -> int | None:
    """NEWEST_WITH_NAMES if a topic has no id, as topics of clusters upgraded from old ones may have none; else None."""
    return NEWEST_WITH_NAMES if any(fetch.topic_id == ZERO_UUID for fetch in fetches) else None


# -- answers


def answered(answer: FetchResponse, asked: Mapping[TopicPartition, Asked]) -> Iterator[tuple[Asked, PartitionData]]:
    """Each partition of the answer with its request. Partitions that were not requested are left out."""
    names = {one.fetch.topic_id: partition.topic for partition, one in asked.items()}  # version 13+ has ids alone
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for data in topic.partitions:
            found = asked.get(TopicPartition(name, data.partition_index))
            if found is not None:
                yield found, data


def has_records(answer: FetchResponse) -> bool:
    """Whether any partition of the answer has records."""
    return any(data.records for topic in answer.responses for data in topic.partitions)


def is_retriable(code: int) -> bool:
    """Newer metadata, or time, mends the error (FetchCollector.handleInitializeErrors)."""
    return code in PASSING or code == ErrorCode.UNKNOWN_SERVER_ERROR


def new_leader(data: PartitionData) -> LeaderIdAndEpoch | None:
    """A broker that does not lead names the leader it knows, so that no metadata is needed to go on (KIP-951)."""
    leader = data.current_leader if data.error_code in _NOT_LEADER else None
    return leader if leader is not None and leader.leader_id >= 0 else None


def diverging_position(data: PartitionData) -> LogPosition | None:
    """Where the broker's log ends in the epoch last fetched, if that is before the fetch offset (KIP-320, KIP-595)."""
    end = data.diverging_epoch
    return None if end is None or end.end_offset < 0 else LogPosition(end.end_offset, end.epoch)


def completed_fetch(data: PartitionData, offset: int) -> CompletedFetch | None:
    """The batches that came of a fetch from `offset` on; None: no record came. KafkaError: they cannot be read."""
    if not isinstance(data.records, memoryview) or not data.records:
        return None
    return CompletedFetch(data.records, offset, data.aborted_transactions or ())
