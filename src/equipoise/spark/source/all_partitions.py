"""A query that reads all partitions, like Spark's own connector. With a group.id it commits its progress to the
group."""

from __future__ import annotations

import logging
import time

from equipoise.client.consumer.config import EARLIEST
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member import TopicPartition
from equipoise.member.partitions import listed
from equipoise.spark.options import GROUP, SourceOptions
from equipoise.spark.source.batch_claim import BatchClaim, ClaimFile
from equipoise.spark.source.group_member import QueryMember
from equipoise.spark.source.offset_commits import OffsetCommits, commit_metadata
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.spark.source.source_offset import PartitionOffsetMap, PartitionRanges, SourceOffset
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 1.0  # after which partitions are counted again: a topic may have grown
_LAST_COMMIT_SECONDS = 5.0


class AllPartitions:
    """On the loop of its reader."""

    is_settled = True
    rebalances = 0

    def __init__(self, reader: OffsetReader, options: SourceOptions) -> None:
        self._reader = reader
        self._options = options
        self._group = QueryMember(reader) if options.consumer.group_id is not None else None
        self._partitions: list[TopicPartition] = []
        self._listed_at = -_REFRESH_SECONDS
        self._gone: set[TopicPartition] = set()  # those that were told of
        self._commits = None if self._group is None else OffsetCommits(self._group)
        self._last = -1  # the batch that was finished last
        self._claim = ClaimFile()

    async def commit_batch(self, start: SourceOffset) -> None:
        """The batch that ended at `start` is in Spark's commit log."""
        if self._options.group_mode is not None and self._commits is not None and not start.is_initial:
            await self._list(must_exist=False)
            # The group would wait for a deleted topic, and all later commits behind it.
            there = {one: at for one, at in start.to.items() if self._reader.has(one)}
            self._commits.send(there, commit_metadata(start), start.epochs, at_once=start.batch != self._last)
        self._last = start.batch

    async def positions(self, start: SourceOffset) -> PartitionOffsetMap:
        """Where the next batch begins, partition by partition."""
        await self._list(must_exist=start.is_initial)
        self._check_gone(start)
        known = {one: start.to[one] for one in self._partitions if one in start.to}
        new = [one for one in self._partitions if one not in known]
        if not new:
            return known
        return known | (await self._initial(new) if start.is_initial else await self._late(new, start))

    async def _list(self, *, must_exist: bool) -> None:
        """Topics may be deleted after the query has begun: `_check_gone` decides what follows."""
        if time.monotonic() - self._listed_at >= _REFRESH_SECONDS:
            self._partitions = await self._reader.listing(self._options.strategy, must_exist=must_exist)
            self._listed_at = time.monotonic()

    def _check_gone(self, start: SourceOffset) -> None:
        gone = start.to.keys() - set(self._partitions)
        if gone <= self._gone:
            return
        told = f"{listed(gone)} is not there any more: what was not read yet is lost"
        if self._options.fail_on_data_loss:
            raise UsageError(f"{told}; set failOnDataLoss to false to go on without")
        log.warning(told)
        self._gone = gone

    async def ready(self, positions: PartitionOffsetMap, seconds: float) -> PartitionOffsetMap:
        """Of these, what a batch may hold: all."""
        return positions

    async def _initial(self, partitions: list[TopicPartition]) -> PartitionOffsetMap:
        limit = self._options.starting
        limit.check_names(partitions)
        committed: PartitionOffsetMap = {}
        if limit.default == GROUP and self._group is not None:
            committed = {one: at.offset for one, at in (await self._group.fetch(partitions)).items()}
        return await self._reader.resolving(limit, partitions, committed)

    async def _late(self, partitions: list[TopicPartition], start: SourceOffset) -> PartitionOffsetMap:
        """Of partitions that the checkpoint does not have. They are new, and read from their first record on; but if
        the query was a member so far, others have had them, and the group knows how far."""
        found = await self._group.fetch(partitions) if self._group is not None and start.seen else {}
        known = {one: at.offset for one, at in found.items()}
        return known | await self._reader.ends([one for one in partitions if one not in known], EARLIEST)

    async def hold_again(self, ranges: PartitionRanges) -> PartitionRanges:
        """Of a batch that was under way when the query ended, what is read again: all."""
        return ranges

    def claim(self, batch: SourceOffset, ranges: PartitionRanges) -> None:
        """Tells the sink which offsets it commits with the rows."""
        if self._group is not None:
            ends = {one: end for one, (_, end) in ranges.items()}
            claim = BatchClaim(batch=batch.batch, ends=ends, group=ConsumerGroupMetadata(self._group.name))
            self._claim.write(batch.query, claim)

    def must_record(self, start: SourceOffset, positions: PartitionOffsetMap) -> bool:
        """Whether the checkpoint lacks these positions: a batch, even an empty one, puts them there."""
        return any(start.to.get(one) != at for one, at in positions.items())

    def take_deleted(self) -> set[TopicPartition]:
        """Nothing: no group asks for anything back, and the planner looks for what is not there."""
        return set()

    def move(self, partition: TopicPartition, at: int) -> None:
        """To where it goes on after a loss: `must_record` sees to it."""

    def epoch(self, start: SourceOffset, partition: TopicPartition, at: int) -> int:
        """The leader epoch of a start offset, by the checkpoint; -1 if it is not known."""
        return start.epoch(partition, at)

    def forget_topics(self, topics: set[str]) -> None:
        """Of topics that were recreated: a partition without a position is read from its first record on."""

    def seen(self) -> dict[str, int]:
        """Nothing: the offset has every partition, so new partitions are found without it."""
        return {}

    # -- the engine

    def poll_begins(self) -> None:
        """Spark asks for a batch. Without membership there is nobody to tell."""

    def poll_ends(self, busy: PartitionRanges) -> None:
        """A batch was planned. Without membership there is nobody to tell."""

    async def close(self, start: SourceOffset) -> None:
        """Gives the last commits a little time, and drops what is not answered then."""
        self._claim.remove()
        if self._group is not None and self._commits is not None:
            await self._commits.settle(_LAST_COMMIT_SECONDS)
            await self._group.leave()
            await self._commits.abandon()
