"""ListOffsets: looks up offsets by time at the leader of each partition, for seeks and for offset resets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from equipoise.client.config import ClientConfig
from equipoise.client.metadata.leader_epochs import NO_EPOCH
from equipoise.client.metadata.metadata import Leader
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError

# What newer metadata, or a little time, mends.
PASSING = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}


class OffsetAndTimestamp(NamedTuple):
    """The first record at or behind a time."""

    offset: int  # -1: there is none
    timestamp: int
    leader_epoch: int


Timestamps = Mapping[TopicPartition, int]  # LATEST, EARLIEST or milliseconds
Outcomes = dict[TopicPartition, OffsetAndTimestamp | KafkaError]


LeaderOf = Callable[[TopicPartition], Leader | None]


def list_offsets_request(
    timestamps: Timestamps,
    leader_of: LeaderOf = lambda partition: None,
    *,
    isolation_level: int = 0,
    timeout_ms: int = 0,
) -> ListOffsetsRequest:
    """To the leader of these partitions. Its epoch, where `leader_of` knows it, fences old leaders."""
    topics: dict[str, ListOffsetsTopic] = {}
    for partition, timestamp in timestamps.items():
        topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
        leader = leader_of(partition)
        asked = ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=NO_EPOCH if leader is None else leader.epoch,
            timestamp=timestamp,
        )
        topic.partitions.append(asked)
    return ListOffsetsRequest(isolation_level=isolation_level, topics=list(topics.values()), timeout_ms=timeout_ms)


def listed_offsets(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
    """The answer, partition by partition."""
    for topic in response.topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one


def all_listed(found: Mapping[TopicPartition, int | KafkaError]) -> dict[TopicPartition, int]:
    """The same, if no partition was refused. Raises the first refusal."""
    listed: dict[TopicPartition, int] = {}
    for partition, offset in found.items():
        if isinstance(offset, KafkaError):
            raise offset
        listed[partition] = offset
    return listed


def outcomes_of(response: ListOffsetsResponse, config: ClientConfig) -> Outcomes:
    """What is not in it may be asked for again, of the leader that newer metadata names
    (OffsetFetcherUtils.handleListOffsetResponse)."""
    outcomes: Outcomes = {}
    for partition, one in listed_offsets(response):
        if one.error_code and one.error_code not in PASSING:
            what = f"the offsets of {partition} cannot be read"
            outcomes[partition] = config.topic_error(one.error_code, partition.topic, what)
        elif not one.error_code:
            outcomes[partition] = OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
    return outcomes
