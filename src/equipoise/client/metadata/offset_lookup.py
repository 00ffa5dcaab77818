"""Offsets looked up by time, at the leader of each partition: for seeks, and for positions to be found anew."""

from __future__ import annotations

import asyncio
import logging

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.list_offsets import (
    OffsetAndTimestamp,
    Outcomes,
    Timestamps,
    list_offsets_request,
    outcomes_of,
)
from equipoise.client.net.backoff import Backoff
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import ListOffsetsResponse
from equipoise.wire.errors import EquipoiseError, KafkaError, UsageError

log = logging.getLogger(__name__)


class OffsetLookup:
    """ListOffsets on the cluster's loop, for as many leaders as there are."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.by_leader = cluster.by_leader
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
                await self._cluster.check_topics({key.topic for key in wanted if key not in found})
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

    async def pause(self, failures: int) -> None:
        """Before the next round, which asks by newer metadata."""
        self._cluster.request_refresh()
        await asyncio.sleep(self._backoff.pause(failures))

    async def ask_leader(self, node_id: int, wanted: Timestamps) -> Outcomes:
        """One question to one leader. What it does not answer is left out. UsageError: it never will."""
        request = list_offsets_request(
            wanted,
            self._cluster.leader,
            isolation_level=self._config.isolation,
            timeout_ms=self._config.request_timeout_ms,
        )
        try:
            answer = await self._cluster.leader_answer(node_id, wanted, request, ListOffsetsResponse)
            return outcomes_of(answer, self._cluster.config)
        except UsageError:
            raise
        except EquipoiseError as error:
            log.debug("offsets by time: %s", error)
            return {}
