"""The driver's view of the cluster: which partitions there are, and where they begin and end.

It lives in a thread with a loop, so that heartbeats go on while Spark is busy. Its methods are for the
thread in which Spark calls, and block.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.leader_epochs import is_recreated
from equipoise.client.metadata.offset_lookup import OffsetLookup
from equipoise.client.net.loop_thread import LoopThread
from equipoise.member.partitions import TopicPartition, listed
from equipoise.spark.options import GROUP, ConsumerStrategy, OffsetRangeLimit
from equipoise.spark.source.source_offset import PartitionOffsetMap
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.schema import ZERO_UUID

Result = TypeVar("Result")


class OffsetReader:
    """KafkaError where the cluster does not answer within default.api.timeout.ms."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.thread = LoopThread("equipoise-spark")
        try:
            self.cluster = self.thread.run(self._open())
        except BaseException:
            self.thread.end()
            raise
        self.lookup = OffsetLookup(self.cluster, config)
        self._written = OffsetLookup(self.cluster, replace(config, isolation_level="read_uncommitted"))
        self.epochs: dict[TopicPartition, int] = {}  # of the leaders that told the latest offsets last

    async def _open(self) -> Cluster:
        cluster = Cluster(self.config)
        cluster.start()
        return cluster

    def close(self) -> None:
        """Closes the connections and ends the thread."""
        self.thread.run(self.cluster.close())
        self.thread.end()

    def run(self, work: Coroutine[Any, Any, Result], what: str) -> Result:
        """Runs work on the loop and waits. After default.api.timeout.ms the error says what was waited for."""
        limit = self.config.default_api_timeout_ms / 1000
        try:
            return self.thread.run(work, limit, within=self.cluster.unless_refused)
        except TimeoutError:
            trouble = self.cluster.last_failure or "the cluster is reachable, the one that was asked did not answer"
            message = f"{what} had no answer within {limit:g} s: {trouble}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None

    # -- partitions

    def partitions(self, strategy: ConsumerStrategy) -> list[TopicPartition]:
        """Those that exist now. A topic that was named and does not exist is an error; a pattern may match nothing."""
        return self.run(self.listing(strategy), "the list of partitions")

    async def listing(self, strategy: ConsumerStrategy, *, must_exist: bool = True) -> list[TopicPartition]:
        """The partitions that the query reads, by fresh metadata. UsageError: a named one does not exist. KafkaError:
        it may not be read."""
        names = {one.topic for one in strategy.partitions} or set(strategy.topics)
        self.cluster.subscribe_topics(None if strategy.pattern is not None else names)
        await self.cluster.refresh()
        self.check_topics(names, must_exist=must_exist)
        found = {TopicPartition(name, number) for name in self.matching(strategy) for number in self._numbers(name)}
        if strategy.partitions:
            missing = set(strategy.partitions) - found
            if missing and must_exist:
                raise UsageError(f"assign names {listed(missing)}, which the cluster does not have")
            found &= set(strategy.partitions)
        return sorted(found)

    def has(self, partition: TopicPartition) -> bool:
        """Whether the newest metadata has the partition."""
        topic = self.cluster.topics.get(partition.topic)
        return topic is not None and partition.partition < topic.partitions

    def _numbers(self, name: str) -> range:
        return range(self.cluster.topics[name].partitions)

    def matching(self, strategy: ConsumerStrategy) -> list[str]:
        """The topics of the strategy that the newest metadata has."""
        known = self.cluster.topics
        if strategy.pattern is None:
            return sorted(
                name for name in {*strategy.topics, *(one.topic for one in strategy.partitions)} if name in known
            )
        pattern, hide = re.compile(strategy.pattern), self.config.exclude_internal_topics
        return sorted(
            name for name, topic in known.items() if pattern.fullmatch(name) and not (hide and topic.is_internal)
        )

    async def learn_topics(self, names: Iterable[str]) -> None:
        """Returns when the cluster's metadata has these topics, or has said that they do not exist."""
        if not set(names) <= self.cluster.topics.keys():
            self.cluster.know_also(names)
            await self.cluster.refresh()

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """In hexadecimal, of the topics that have one: old brokers give none."""
        topics = self.cluster.topics
        found = {name: topics[name].topic_id for name in names if name in topics}
        return {name: id_.hex() for name, id_ in found.items() if id_ != ZERO_UUID}

    def recreated(self, known: Mapping[str, str]) -> set[str]:
        """The topics that have another id now than the known one, by the newest metadata."""
        topics = self.cluster.topics
        both = {name: (bytes.fromhex(id_), topics[name].topic_id) for name, id_ in known.items() if name in topics}
        return {name for name, ids in both.items() if is_recreated(*ids)}

    def check_topics(self, names: Iterable[str], *, must_exist: bool = True) -> None:
        """Each is there, and may be read; else KafkaError or UsageError. A denied topic is not deleted."""
        for name in sorted(names):
            if name in self.cluster.errors:
                raise self.cluster.errors[name]
            if must_exist and name not in self.cluster.topics:
                raise UsageError(
                    f"topic {name!r} does not exist at {self.config.bootstrap_servers}: create it, or check its name"
                )

    # -- offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsetMap:
        """The first offsets, for Spark's thread."""
        return self.run(self.ends(partitions, EARLIEST), "the earliest offsets")

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsetMap:
        """With read_committed, up to the first open transaction."""
        return self.run(self.ends(partitions, LATEST), "the latest offsets")

    async def ends(self, partitions: Iterable[TopicPartition], which: int) -> PartitionOffsetMap:
        """The first or the last offset of each partition; the last ones come with their leader epochs."""
        found = await self.lookup.list_offsets(dict.fromkeys(partitions, which))
        if which == LATEST:
            self.epochs |= {partition: one.leader_epoch for partition, one in found.items()}
        return {partition: one.offset for partition, one in found.items()}

    async def written(self, partitions: Iterable[TopicPartition]) -> PartitionOffsetMap:
        """Where each log ends, behind open transactions too: who reads them stands there."""
        found = await self._written.list_offsets(dict.fromkeys(partitions, LATEST))
        return {partition: one.offset for partition, one in found.items()}

    def resolve(
        self, limit: OffsetRangeLimit, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> PartitionOffsetMap:
        """Where each partition stands by `limit`; `committed` is what GROUP means. UsageError: nothing fits."""
        return self.run(self.resolving(limit, list(partitions), committed), "the offsets to begin with")

    async def resolving(
        self, limit: OffsetRangeLimit, partitions: list[TopicPartition], committed: Mapping[TopicPartition, int]
    ) -> PartitionOffsetMap:
        """Offsets for a limit: fixed ones as they are, the others by ListOffsets or by the group's commits."""
        wanted = {one: limit.at(one) for one in partitions}
        if limit.is_time:
            return await self._at_times(limit, wanted)
        fixed = {one: at for one, at in wanted.items() if at >= 0}
        fixed |= {one: committed[one] for one, at in wanted.items() if at == GROUP and one in committed}
        asked = {one: EARLIEST if at == GROUP else at for one, at in wanted.items() if one not in fixed}
        early, late = await asyncio.gather(
            self.ends([one for one, at in asked.items() if at == EARLIEST], EARLIEST),
            self.ends([one for one, at in asked.items() if at == LATEST], LATEST),
        )
        return fixed | early | late

    async def _at_times(self, limit: OffsetRangeLimit, wanted: Mapping[TopicPartition, int]) -> PartitionOffsetMap:
        found = await self.lookup.list_offsets(wanted)
        offsets = {one: at.offset for one, at in found.items() if at.offset >= 0}
        missing = [one for one in wanted if one not in offsets]
        if missing and limit.on_no_match == "error":
            raise UsageError(
                f"{listed(missing)} has no record of that time or later: set startingOffsetsByTimestampStrategy to "
                "latest to begin at the end, or name another time"
            )
        return offsets | await self.ends(missing, LATEST)
