"""Offsets looked up by time, at the leader of each partition: for seeks, and for positions to be found anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.net.api_versions import error_from
from equipoise.client.net.pool import Backoff
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

log = logging.getLogger(__name__)

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
    offset: int  # -1: there is none
    timestamp: int
    leader_epoch: int


Timestamps = Mapping[TopicPartition, int]  # LATEST, EARLIEST or milliseconds
Outcomes = dict[TopicPartition, OffsetAndTimestamp | KafkaError]


class OffsetLookup:
    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def list_offsets(self, wanted: Timestamps) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Tries until all are found: bound it by a timeout. Raises KafkaError for what waiting does not mend."""
        self._cluster.know_also(partition.topic for partition in wanted)
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        failures = 0
        while len(found) < len(wanted):
            outcomes = await self.ask({key: time for key, time in wanted.items() if key not in found})
            for partition, outcome in outcomes.items():
                if isinstance(outcome, KafkaError):
                    raise outcome
                found[partition] = outcome
            failures += 1
            if len(found) < len(wanted):
                await self.pause(failures)
        return found

    async def ask(self, wanted: Timestamps) -> Outcomes:
        """One round. What is not in the answer may be asked for again after a pause."""
        rounds = [
            self.ask_leader(node_id, {one: wanted[one] for one in mine})
            for node_id, mine in self.by_leader(wanted).items()
            if node_id is not None
        ]
        outcomes: Outcomes = {}
        for one in await asyncio.gather(*rounds):
            outcomes |= one
        return outcomes

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """None: those of which nobody knows who leads them."""
        found: dict[int | None, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._cluster.leader(partition)
            found.setdefault(None if leader is None else leader.node_id, []).append(partition)
        return found

    async def pause(self, failures: int) -> None:
        self._cluster.request_refresh()
        await asyncio.sleep(self._backoff.pause(failures))

    async def ask_leader(self, node_id: int, wanted: Timestamps) -> Outcomes:
        request = ListOffsetsRequest(
            isolation_level=self._config.isolation,
            topics=self._topics(wanted),
            timeout_ms=self._config.request_timeout_ms,
        )
        try:
            answer = await self._cluster.leader_answer(node_id, wanted, request, ListOffsetsResponse)
        except EquipoiseError as error:
            log.debug("offsets by time: %s", error)
            return {}
        outcomes = {
            TopicPartition(topic.name, one.partition_index): _outcome(topic.name, one)
            for topic in answer.topics
            for one in topic.partitions
        }
        return {key: outcome for key, outcome in outcomes.items() if outcome is not None}

    def _topics(self, wanted: Timestamps) -> list[ListOffsetsTopic]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, timestamp in wanted.items():
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
            leader = self._cluster.leader(partition)
            asked = ListOffsetsPartition(
                partition_index=partition.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                timestamp=timestamp,
            )
            topic.partitions.append(asked)
        return list(topics.values())


def _outcome(topic: str, one: ListOffsetsPartitionResponse) -> OffsetAndTimestamp | KafkaError | None:
    if one.error_code in PASSING:
        return None
    if one.error_code:
        return error_from(one.error_code, f"the offsets of {topic}-{one.partition_index} cannot be read")
    return OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)
